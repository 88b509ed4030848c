// children: the child processes of this process.
#pragma once

#include <sys/types.h>

#include <vector>

namespace hmc::launcher {

/// The direct children of this process, adopted orphans (PR_SET_CHILD_SUBREAPER) included.
std::vector<pid_t> children_of_this_process();

}  // namespace hmc::launcher
