// Plan: a persistent collective.
#pragma once

#include <memory>

#include <hmc/request.hpp>

namespace hmc {

namespace collectives {
class Operation;
class TeamObject;
}  // namespace collectives

/// A persistent collective (compare MPI_Allreduce_init), created by Team::plan_... Creation checks the arguments and
/// builds the schedule. Every run uses the same buffers.
///  - Every rank creates and starts the plans of a team in the same order. start() is a non-blocking collective call.
///    Another order is Error{mismatch}, also of plans with equal arguments. The error numbers a team's plans from 1 in
///    the order of their creation. A plan doesn't match a non-blocking or blocking call.
///  - A plan has at most one run in flight. Several plans may be in flight. They progress as requests do (see Request).
///  - A plan is movable. Its destructor doesn't wait. The caller waits for the last run before it destroys the plan.
///  - Threads: the rules of its team apply.
class HMC_API Plan {
 public:
  Plan() = default;
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();

  /// Starts a run. Error{invalid_argument} if the previous run isn't complete.
  void start();
  /// As Request::test; true if no run is in flight.
  bool test() { return request_.test(); }
  /// As Request::wait; returns at once if no run is in flight.
  void wait(Timeout timeout = job_timeout) { request_.wait(timeout); }

 private:
  friend class Team;
  Plan(std::shared_ptr<collectives::TeamObject> team, collectives::Operation* operation, const char* name) noexcept
      : team_(std::move(team)), operation_(operation), name_(name) {}
  void release() noexcept;

  std::shared_ptr<collectives::TeamObject> team_;
  collectives::Operation* operation_ = nullptr;
  const char* name_ = "";
  Request request_;
};

}  // namespace hmc
