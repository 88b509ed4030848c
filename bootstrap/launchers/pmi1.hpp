// pmi1: the launchers that use PMI-1 over PMI_FD: hydra (MPICH, Intel MPI).
#pragma once

#include <memory>
#include <string>

#include "bootstrap/launchers/join_over.hpp"

namespace hmc::bootstrap {

/// `fd`: PMI_FD. Throws Error if no process manager answers there.
std::unique_ptr<RecordExchange> make_pmi1(int fd);

}  // namespace hmc::bootstrap
