// Creates teams from other teams, and closes them.
#pragma once

#include <memory>
#include <span>

#include "collectives/team/state.hpp"

namespace hmc::collectives {

// Collective over the parent. Return null if this rank isn't in the new team. Throw Error on every rank of the parent
// if the ranks' arguments don't match.
std::shared_ptr<rma::TeamCore> split(const OpenTeam& parent, int colour, int key);
std::shared_ptr<rma::TeamCore> subset(const OpenTeam& parent, std::span<const int> ranks);
std::shared_ptr<rma::TeamCore> duplicate(const OpenTeam& parent);
std::shared_ptr<rma::TeamCore> node_team(const OpenTeam& parent);
std::shared_ptr<rma::TeamCore> leaders(const OpenTeam& parent);

/// Collective. Throws Error on every rank if a rank has windows of the team open.
void close(const OpenTeam& team);

}  // namespace hmc::collectives
