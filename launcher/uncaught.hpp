// The text for the uncaught errors of a job's ranks.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/tcp/uncaught.hpp"

namespace hmc::launcher {

/// One block for each distinct text, in the order of arrival, so that the first cause is first. addr2line (binutils)
/// finds the line of the call. No text for no error.
std::string describe_uncaught(const std::vector<bootstrap::UncaughtError>& errors);

/// The first frame of a program's own function in the output of `addr2line -aCfi`, as "main (ring.cpp:42)". Empty if
/// there is none.
std::string frame_of_program(const std::string& addr2line_output);

}  // namespace hmc::launcher
