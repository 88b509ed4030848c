// From times to the figures that are printed.
#pragma once

#include <hmc/team.hpp>
#include <vector>

namespace bench {

/// The value that p percent of the sorted ones don't exceed, by OSU's rule (nearest rank).
double percentile(const std::vector<double>& sorted, int percent);
inline constexpr int tail_percents[] = {50, 90, 99};

double mean_of(const std::vector<double>& values);

/// Element by element, over the ranks. Collective.
std::vector<double> sum_over_ranks(hmc::Team& team, std::vector<double> values);
double sum_over_ranks(hmc::Team& team, double value);
double min_over_ranks(hmc::Team& team, double value);
double max_over_ranks(hmc::Team& team, double value);

}  // namespace bench
