// Creates teams from other teams, and closes them.
#pragma once

#include <memory>
#include <span>

#include "collectives/team/team_object.hpp"

namespace hmc::collectives {

// Collective over the parent. Return null if this rank isn't in the new team. Throw Error on every rank of the parent
// if the ranks' arguments don't match.
std::shared_ptr<TeamObject> split(TeamObject& parent, int colour, int key);
std::shared_ptr<TeamObject> subset(TeamObject& parent, std::span<const int> ranks);
std::shared_ptr<TeamObject> duplicate(TeamObject& parent);
std::shared_ptr<TeamObject> node_team(TeamObject& parent);
std::shared_ptr<TeamObject> leaders(TeamObject& parent);

/// Collective. Throws Error on every rank if a rank has windows of the team open.
void close(TeamObject& team);

}  // namespace hmc::collectives
