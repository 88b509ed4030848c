// The cost model of collectives on this machine, as hmcinfo explain and hmc-sim ask for it.
#pragma once

#include <string>

#include "collectives/schedule/cost.hpp"
#include "runtime/base/env.hpp"

namespace hmc::job {

struct MachineModel {
  collectives::schedule::Parameters parameters;
  std::string origin;  ///< for people: which file, or why the built-in figures
};

/// The figures of `file` if one is given; else those that a job on this machine measured and kept in HMC_CACHE; else
/// the built-in ones. `one_machine`: nodes are pretended. Throws Error for a file that can't be read.
MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine);

}  // namespace hmc::job
