// The inproc bootstrap: ranks are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace hmc::bootstrap {

/// The `size` bootstraps of a job, one for each thread. If `nodes` > 1, the ranks are assigned in blocks to that number
/// of emulated nodes (rank r is on node r * nodes / size).
std::vector<std::unique_ptr<Bootstrap>> make_inproc(int size, int nodes = 1);

/// Rank 0 of 1.
std::unique_ptr<Bootstrap> make_alone();

}  // namespace hmc::bootstrap
