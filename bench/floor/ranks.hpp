// The program's own ranks: forked, pinned, and joined to one job.
#pragma once

#include <functional>

namespace hmc::floor {

/// Forks `count` processes with the environment that Runtime::init() needs, each pinned to a core of its own if there
/// are enough, and runs `body` in each. Returns the exit code for main().
int run_ranks(int count, const std::function<int(int rank)>& body);

}  // namespace hmc::floor
