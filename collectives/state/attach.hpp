// attach: creates a team's collectives. Called by job/.
#pragma once

#include <string>

#include "collectives/schedule/cost.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// Equal on all ranks.
struct Settings {
  std::string algorithms;  ///< HMC_COLL
  bool deterministic = false;
  std::string rows;       ///< the content of HMC_COLL_FILE
  std::string rows_file;  ///< the file's name, for errors
  schedule::CostParameters parameters;
  std::string private_buffers;  ///< HMC_COLL_PRIVATE; may differ between ranks
};

/// Collective over the team. Creates the arenas and both engines, and stores them in team.collectives.
void attach(rma::TeamCore& team, const Settings& settings);

}  // namespace hmc::collectives
