// pmix: the launchers that serve PMIx: Open MPI's mpirun, srun --mpi=pmix.
#pragma once

#include <memory>
#include <string>

#include "bootstrap/launchers/join_over.hpp"

namespace hmc::bootstrap {

/// Empty if this build and machine can use PMIx, else the reason.
std::string why_no_pmix(const base::Env& env);

/// Connects to the launcher's server. Sets rank and size of `member`. Throws Error.
std::unique_ptr<RecordExchange> make_pmix(const base::Env& env, Member& member);

}  // namespace hmc::bootstrap
