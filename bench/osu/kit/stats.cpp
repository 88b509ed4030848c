#include "bench/osu/kit/stats.hpp"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

double over_ranks(hmc::Team& team, double value, hmc::Op op) {
  double result = 0;
  team.allreduce(&value, &result, 1, hmc::DType::f64, op);
  return result;
}

}  // namespace

double percentile(const std::vector<double>& sorted, int percent) {
  if (sorted.empty()) return 0;
  const auto nearest = std::lround(static_cast<double>(sorted.size()) * percent / 100);
  return sorted[static_cast<std::size_t>(std::max(nearest, 1L) - 1)];
}

double overlap_percent(double overall, double compute, double pure) {
  return pure > 0 ? std::clamp(100 - 100 * (overall - compute) / pure, 0.0, 100.0) : 0;
}

std::vector<double> sum_over_ranks(hmc::Team& team, std::vector<double> values) {
  team.allreduce(values.data(), values.data(), values.size(), hmc::DType::f64, hmc::sum);
  return values;
}
double sum_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::sum); }
double min_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::min); }
double max_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::max); }

}  // namespace bench
