// State: the engines of a team's collectives.
#pragma once

#include <array>
#include <memory>

#include "collectives/network/schedule_team.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/select/selector.hpp"
#include "collectives/state/attach.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

class CallsOnStreams;

/// Owns ScheduleTeam (any wires) and, if all ranks have load/store access to each other, DirectTeam. Either all ranks
/// have a DirectTeam or none.
class State final : public rma::CollectiveState {
 public:
  State(rma::TeamCore& team, const Settings& settings);
  ~State() override;
  std::exception_ptr close() override;

  /// Null if a call of `collective` must run as a schedule. `bytes`: of the vector, or of one rank's block.
  DirectTeam* direct(schedule::Collective collective, std::size_t bytes) const noexcept {
    return direct_ == nullptr || selector_.wants_schedule(shape_, collective, bytes) ? nullptr : direct_.get();
  }
  /// For a call whose size isn't known on all ranks yet.
  DirectTeam* direct_at_any_size(schedule::Collective collective) const noexcept {
    return selector_.is_free(collective) ? direct_.get() : nullptr;
  }
  /// Counts a call that runs by load and store.
  void count_direct(schedule::Collective collective) noexcept {
    if (direct_taken_[static_cast<std::size_t>(collective)]++ == 0) [[unlikely]]
      tell_direct(collective);
  }
  /// Number of calls that ran by load and store.
  std::uint64_t direct_taken(schedule::Collective collective) const noexcept {
    return direct_taken_[static_cast<std::size_t>(collective)];
  }
  ScheduleTeam& schedules() const noexcept { return *schedules_; }
  Selector& selector() noexcept { return selector_; }
  const Settings& settings() const noexcept { return settings_; }
  const schedule::Shape& shape() const noexcept { return shape_; }

 private:
  void tell_direct(schedule::Collective collective) const noexcept;

  rma::TeamCore& team_;
  Selector selector_;
  Settings settings_;
  schedule::Shape shape_;
  const base::Log& log_;
  std::unique_ptr<DirectTeam> direct_;
  std::array<std::uint64_t, schedule::collective_count> direct_taken_{};
  std::unique_ptr<ScheduleTeam> schedules_;

 public:
  std::unique_ptr<CallsOnStreams> streams;  ///< created by the first call on streams
};

/// An open team, for the duration of a call. Throws Error{closed} if the team is closed.
struct OpenTeam {
  rma::TeamCore& core;
  State& state;
  OpenTeam(const std::shared_ptr<rma::TeamCore>& team, const char* operation)
      : core(require_open(team, operation)), state(static_cast<State&>(*core.collectives)) {}
  int rank() const noexcept { return core.rank(); }
  int size() const noexcept { return core.size(); }

 private:
  [[noreturn]] static void refuse(const std::shared_ptr<rma::TeamCore>& team, const char* operation);
  /// A team that a user holds has its collectives: attach() runs before the team is returned.
  static rma::TeamCore& require_open(const std::shared_ptr<rma::TeamCore>& team, const char* operation) {
    if (team == nullptr || team->fabric().closed() || team->closed) [[unlikely]]
      refuse(team, operation);
    return *team;
  }
};

}  // namespace hmc::collectives
