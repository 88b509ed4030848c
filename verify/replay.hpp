// A second opinion, by other means than the checker's: schedules executed on made-up values, in random order and as
// late or as early as the rules allow.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "verify/case.hpp"

namespace hmc::verify {

/// One execution; what went wrong in it, if anything did. A right answer proves little, a wrong one everything. The
/// schedules must be within bounds and match their slots.
std::optional<std::string> replay(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                                  std::mt19937_64& random);

}  // namespace hmc::verify
