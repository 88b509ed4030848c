// The library path of a program that is linked with libhmc.so and has no run path to it.
#pragma once

#include <string>

#include "launcher/plan.hpp"

namespace hmc::launcher {

/// The value of LD_LIBRARY_PATH with which the loader finds the program's HMC libraries: the one of `environment`, and
/// after it the folder of this hmcrun's own prefix. Empty if the program needs none of them, or finds them without.
std::string library_path_for(const std::string& program, const Environment& environment);

}  // namespace hmc::launcher
