// Plan: a persistent collective.
#pragma once

#include <memory>

#include <hmc/request.hpp>

namespace hmc {

namespace rma {
class TeamCore;
}
namespace collectives {
class Operation;
}

/// A persistent collective, created by Team::plan_...: its arguments are checked and its schedule is built once. It
/// always uses the same buffers.
///  - Every rank creates and starts the plans of a team in the same order. A start counts as a non-blocking call.
///  - A plan has one run in flight at a time. Several plans may be in flight; they progress as requests do (see
///  Request).
///  - A plan is movable. Its destructor doesn't wait: wait for the last run before.
///  - Threads: as its team.
class HMC_API Plan {
 public:
  Plan() = default;
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();

  /// Starts a run. Error{invalid_argument} if the previous run isn't complete.
  void start();
  /// As Request::test; true if there is no run.
  bool test() { return request_.test(); }
  /// As Request::wait; returns at once if there is no run.
  void wait(Timeout timeout = job_timeout) { request_.wait(timeout); }

 private:
  friend class Team;
  Plan(std::shared_ptr<rma::TeamCore> team, collectives::Operation* operation, const char* name) noexcept
      : team_(std::move(team)), operation_(operation), name_(name) {}
  void release() noexcept;

  std::shared_ptr<rma::TeamCore> team_;
  collectives::Operation* operation_ = nullptr;
  const char* name_ = "";
  Request request_;
};

}  // namespace hmc
