// children: the child processes of this process.
#pragma once

#include <sys/types.h>

#include <vector>

namespace hmc::launcher {

/// The direct children of this process, including adopted orphans (PR_SET_CHILD_SUBREAPER).
std::vector<pid_t> children_of_this_process();

}  // namespace hmc::launcher
