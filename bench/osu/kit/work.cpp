#include "bench/osu/kit/work.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace bench {
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
