// A second check, independent of the checker: executes schedules on artificial values, in random order, and completes
// each transfer as late or as early as the rules allow.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "verify/cases.hpp"

namespace hmc::verify {

/// One execution. Returns the first error, or nullopt. A correct result proves little; a wrong result proves an error.
/// Precondition: match_messages() and check_bounds() accept the schedules.
std::optional<std::string> replay(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                                  std::mt19937_64& random);

}  // namespace hmc::verify
