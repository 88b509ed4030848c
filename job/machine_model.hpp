// The cost model of collectives on this machine, for hmcinfo explain and hmc-sim.
#pragma once

#include <string>

#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"

namespace hmc::job {

struct MachineModel {
  collectives::schedule::CostParameters parameters;
  std::string origin;  ///< for output: the file, or the reason for the built-in parameters
};

/// The parameters, in this order:
/// - of `file`, if not empty
/// - of HMC_CACHE, if a job on this machine stored measurements there
/// - built in
///
/// `one_machine`: nodes are emulated. Throws Error if `file` can't be read or has no valid parameters.
MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine);

}  // namespace hmc::job
