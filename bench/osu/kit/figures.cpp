#include "bench/osu/kit/figures.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

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

namespace {

volatile double sink;

// About ten nanoseconds each: every operation depends on the previous result.
void compute(std::size_t steps) {
  double value = sink;
  for (std::size_t i = 0; i < steps; ++i) {
    for (int j = 0; j < 8; ++j) value = value * 0.999 + 0.5;
  }
  sink = value;
}

// The fastest of several runs: no other process used the core in it.
double ns_of_a_step() {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t steps = 500;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) {
    const Clock::time_point start = Clock::now();
    compute(steps);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best / static_cast<double>(steps);
}

}  // namespace

Work::Work(double us) {
  static const double ns = ns_of_a_step();
  steps_ = std::max(static_cast<std::size_t>(us * 1000 / ns), std::size_t{1});
}

void Work::run() const { compute(steps_); }

}  // namespace bench
