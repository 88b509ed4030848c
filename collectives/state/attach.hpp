// What the job does to give a team its collectives.
#pragma once

#include <string>

#include "collectives/schedule/cost.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// Equal on all ranks.
struct Settings {
  std::string algorithms;  ///< HMC_COLL
  bool deterministic = false;
  std::string rows;       ///< what stands in HMC_COLL_FILE
  std::string rows_file;  ///< its name, for errors
  schedule::Parameters parameters;
  std::string private_buffers;  ///< HMC_COLL_PRIVATE; this one may differ
};

/// Collective over the team: makes the arenas and the engines, and puts them into team.collectives.
void attach(window::TeamCore& team, const Settings& settings);

}  // namespace hmc::collectives
