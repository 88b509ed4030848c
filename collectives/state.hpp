// State: what a team's collectives stand on.
#pragma once

#include <memory>

#include "collectives/attach.hpp"
#include "collectives/direct/direct_team.hpp"
#include "collectives/execute/schedule_team.hpp"
#include "collectives/select/selector.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// Schedules, over any wires; and, where every pair of the team reaches each other by load and store, a few
/// collectives that are written for that. All ranks agree on whether there are such.
class State final : public window::CollectiveState {
 public:
  State(window::TeamCore& team, const Settings& settings);
  void close() override;

  /// For `collective`: null if it isn't to be carried out by load and store.
  DirectTeam* direct(schedule::Collective collective) const noexcept {
    return selector_.forces(collective) ? nullptr : direct_.get();
  }
  ScheduleTeam& schedules() const noexcept { return *schedules_; }
  Selector& selector() noexcept { return selector_; }
  bool deterministic() const noexcept { return settings_.deterministic; }
  const Settings& settings() const noexcept { return settings_; }
  const schedule::Shape& shape() const noexcept { return shape_; }

 private:
  Selector selector_;
  Settings settings_;
  schedule::Shape shape_;
  std::unique_ptr<DirectTeam> direct_;
  std::unique_ptr<ScheduleTeam> schedules_;
};

}  // namespace hmc::collectives
