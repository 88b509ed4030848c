// Plan: a collective that is made many times.
#pragma once

#include <memory>

#include <hmc/request.hpp>

namespace hmc {

namespace window {
class TeamCore;
}
namespace collectives {
class Operation;
}

/// Made by Team::plan_...: checked and built once, with its buffers. Each rank makes and starts the team's plans in
/// the same order; a start counts as a non-blocking call of that collective. One run at a time; several plans may be
/// under way, and go on while the rank computes, as requests do. Movable; its destructor waits for nothing, so wait for
/// the last run first. Threads: its team's.
class HMC_API Plan {
 public:
  Plan() = default;
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();

  /// Begins a run. Error{invalid_argument} if the last one isn't over.
  void start();
  /// Whether the run is over; true if there is none.
  bool test() { return request_.test(); }
  void wait(Timeout timeout = job_timeout) { request_.wait(timeout); }

 private:
  friend class Team;
  Plan(std::shared_ptr<window::TeamCore> team, collectives::Operation* operation, const char* name) noexcept
      : team_(std::move(team)), operation_(operation), name_(name) {}
  void release() noexcept;

  std::shared_ptr<window::TeamCore> team_;
  collectives::Operation* operation_ = nullptr;
  const char* name_ = "";
  Request request_;
};

}  // namespace hmc
