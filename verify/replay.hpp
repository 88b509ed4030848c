// A second check, independent of the checker: executes schedules on artificial values, in random order, with every
// transfer as late or as early as the rules allow.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "verify/case.hpp"

namespace hmc::verify {

/// One execution. Returns the mistake, if one was found. A correct result proves little; a wrong one refutes the
/// schedules. They must be within bounds and match their slots.
std::optional<std::string> replay(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                                  std::mt19937_64& random);

}  // namespace hmc::verify
