// Program: the file that a command name refers to.
#pragma once

#include <string>

namespace hmc::launcher {

/// Looks `name` up in `path` (the ranks' PATH) as execvp does; a name with a slash is taken as it is.
/// Throws LaunchError with status 127 if there is no such file, and 126 if it can't be executed.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace hmc::launcher
