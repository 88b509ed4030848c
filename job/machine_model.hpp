// The cost model of collectives on this machine, for hmcinfo explain and hmc-sim.
#pragma once

#include <string>

#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"

namespace hmc::job {

struct MachineModel {
  collectives::schedule::CostParameters parameters;
  std::string origin;  ///< printed: the file, or why the parameters are built in
};

/// Returns the first of:
/// - the parameters in `file`, if `file` isn't empty
/// - the parameters in HMC_CACHE, if a job on this machine measured and stored them
/// - the built-in parameters
///
/// `one_machine`: the nodes are emulated. Throws Error if `file` can't be read or has no valid parameters.
MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine);

}  // namespace hmc::job
