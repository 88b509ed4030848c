// Which cases an algorithm is checked with.
#pragma once

#include <functional>
#include <vector>

#include "verify/case.hpp"

namespace hmc::verify {

enum class Effort { quick, full };

/// Every size up to 64 (quick: some of them), then samples up to 4096.
std::vector<int> sizes_for(Effort effort);

/// Gives `take` every case of this size that the algorithm applies to: counts 0, 1, N-1, a prime, large; roots, in
/// place, orders, v-forms, gaps, segments, nodes. Small teams get the product of all, larger ones a part that
/// turns with size and count.
void for_each_case(const schedule::Algorithm& algorithm, int size, Effort effort,
                   const std::function<void(const Case&)>& take);

/// What checking would cost, in arbitrary units: steps times what each carries. From some ranks' schedules.
double cost_of(const Case& subject);

/// What the cases of one algorithm at one size above 64 may cost together, so that all ends in one or two minutes.
constexpr double usual_limit = 2e9;

/// The same cases, as far as `limit` reaches: `take` gets those that are to be checked, `leave` the others. Cases are
/// taken in their order, so of large teams the small counts.
void for_each_case_within(double limit, const schedule::Algorithm& algorithm, int size, Effort effort,
                          const std::function<void(const Case&)>& take, const std::function<void(const Case&)>& leave);

}  // namespace hmc::verify
