// What the job does to give a team its collectives.
#pragma once

#include <string>

#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// Equal on all ranks.
struct Settings {
  std::string algorithms;  ///< HMC_COLL
  bool deterministic = false;
};

/// Collective over the team: makes the arenas and the engines, and puts them into team.collectives.
void attach(window::TeamCore& team, const Settings& settings);

}  // namespace hmc::collectives
