// What the job does to give a team its collectives.
#pragma once

#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// Collective over the team: makes the arena and the engine, and puts them into team.collectives.
void attach(window::TeamCore& team);

}  // namespace hmc::collectives
