// The cases with which an algorithm is checked.
#pragma once

#include <functional>
#include <vector>

#include "verify/case.hpp"

namespace hmc::verify {

enum class Effort { quick, full };

/// The team sizes: every size up to 64 (quick: some of them), then samples up to 4096.
std::vector<int> sizes_for(Effort effort);

/// Calls `check` with every case of this size that the algorithm applies to: counts 0, 1, N-1, a prime, large; roots,
/// in place, orders, v-forms, gaps, segments, nodes. Small teams get all combinations. Larger teams
/// get some of them, chosen by size and count.
void for_each_case(const schedule::Algorithm& algorithm, int size, Effort effort,
                   const std::function<void(const Case&)>& check);

/// The estimated cost of a check, in arbitrary units: steps times their data. Computed from a sample of the ranks.
double cost_of(const Case& subject);

/// The limit on the total cost of an algorithm's cases of one size above 64, so that all checks take one or two
/// minutes.
constexpr double usual_limit = 2e9;

/// The same cases within `limit`: `check` gets the cases to check, `skip` the others. Cases are checked in order,
/// so large teams are checked with small counts only.
void for_each_case_within(double limit, const schedule::Algorithm& algorithm, int size, Effort effort,
                          const std::function<void(const Case&)>& check, const std::function<void(const Case&)>& skip);

}  // namespace hmc::verify
