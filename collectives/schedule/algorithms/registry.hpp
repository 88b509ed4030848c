// The table of algorithms.
#pragma once

#include <span>
#include <string_view>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// All algorithms, grouped by collective.
std::span<const Algorithm> algorithms();
/// Null if the collective has no algorithm of this name ("ring", "recursive_doubling").
const Algorithm* find(Collective collective, std::string_view name);

}  // namespace hmc::collectives::schedule
