#include "collectives/state.hpp"

#include <algorithm>

#include "collectives/attach.hpp"

namespace hmc::collectives {

State::State(window::TeamCore& team) {
  // A wire serves a pair both ways, and whether a peer is on my node is the same seen from it; so one
  // look at my own paths would miss pairs that don't include me: with several nodes each rank has a peer
  // that it can't reach directly, hence all see the same answer.
  const auto& paths = team.fabric().paths;
  if (std::all_of(paths.begin(), paths.end(), [](const Path& path) { return path.direct; })) {
    direct_ = std::make_unique<DirectTeam>(team);
  } else {
    rounds_ = std::make_unique<RoundTeam>(team);
  }
}

void State::close() {
  open_ = false;
  if (direct_) direct_->close();
  if (rounds_) rounds_->close();
}

Signature State::signature_of(int rank) const noexcept {
  return direct_ ? direct_->signature_of(rank) : rounds_->signature_of(rank);
}

void attach(window::TeamCore& team) { team.collectives = std::make_unique<State>(team); }

}  // namespace hmc::collectives
