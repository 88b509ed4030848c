// The clock, statistics of times, and computation to overlap with communication.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace bench {

/// A clock that all processes of a machine share.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline double ns_since(std::int64_t start_ns) { return static_cast<double>(now_ns() - start_ns); }
inline double us_since(std::int64_t start_ns) { return ns_since(start_ns) / 1e3; }
inline double us_between(std::int64_t start_ns, std::int64_t end_ns) {
  return static_cast<double>(end_ns - start_ns) / 1e3;
}

inline double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
/// 0 without values.
inline double quantile_of(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size()) * part);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}
inline double median_of(std::vector<double> values) { return quantile_of(std::move(values), 0.5); }

/// The p-th percentile of sorted values, by OSU's rule (nearest rank).
inline double percentile(const std::vector<double>& sorted, int percent) {
  if (sorted.empty()) return 0;
  const auto nearest = std::lround(static_cast<double>(sorted.size()) * percent / 100);
  return sorted[static_cast<std::size_t>(std::max(nearest, 1L) - 1)];
}

/// The overlap of communication and computation, from 0 to 100: OSU's rule, 100 - 100 (overall - compute) / pure.
inline double overlap_percent(double overall, double compute, double pure) {
  return pure > 0 ? std::clamp(100 - 100 * (overall - compute) / pure, 0.0, 100.0) : 0;
}

/// A fixed amount of arithmetic, which takes about `us` microseconds on an idle core. It isn't a fixed time: if the
/// progress of a collective uses the core, the work takes longer, which reduces the overlap.
class Work {
 public:
  explicit Work(double us) {
    static const double ns = ns_of_a_step();
    steps_ = std::max(static_cast<std::size_t>(us * 1000 / ns), std::size_t{1});
  }
  void run() const { compute(steps_); }

 private:
  // About ten nanoseconds a step: every operation depends on the previous result.
  static void compute(std::size_t steps) {
    static volatile double sink;
    double value = sink;
    for (std::size_t i = 0; i < steps; ++i) {
      for (int j = 0; j < 8; ++j) value = value * 0.999 + 0.5;
    }
    sink = value;
  }
  // The fastest of several runs: no other process used the core in it.
  static double ns_of_a_step() {
    constexpr std::size_t steps = 500;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 20; ++i) {
      const std::int64_t start = now_ns();
      compute(steps);
      best = std::min(best, ns_since(start));
    }
    return best / static_cast<double>(steps);
  }

  std::size_t steps_;
};

}  // namespace bench
