// State: what a team's collectives stand on, one of two kinds.
#pragma once

#include <memory>

#include "collectives/direct/direct_team.hpp"
#include "collectives/rounds/round_team.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// All ranks agree on the kind: direct if every pair of the team reaches each other by load and store.
class State final : public window::CollectiveState {
 public:
  explicit State(window::TeamCore& team);
  void close() override;

  DirectTeam* direct() const noexcept { return direct_.get(); }
  RoundTeam* rounds() const noexcept { return rounds_.get(); }
  bool is_open() const noexcept { return open_; }
  /// Who called what; the present call of a rank.
  Signature signature_of(int rank) const noexcept;

 private:
  std::unique_ptr<DirectTeam> direct_;
  std::unique_ptr<RoundTeam> rounds_;
  bool open_ = true;
};

}  // namespace hmc::collectives
