// The state of a rank, as other processes of its machine see it.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/node_page.hpp"

namespace hmc::launcher {

/// "in allreduce number 812 for 61.2 s, waiting for rank 3". The line's fields are hints; each is read once.
std::string describe_activity(const base::ActivityLine& line);
/// True if the process is stopped (SIGSTOP, or by a debugger).
bool is_stopped(pid_t pid);

}  // namespace hmc::launcher
