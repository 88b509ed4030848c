// Computes a rank's results from the times of its passes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

namespace compare {

struct Times {
  std::vector<double> call_ns;  // of each pass, for one call of its batch
  std::vector<double> read_ns;  // of each pass, if this rank has a result to read
  long long loopback_bytes = 0;
};

inline double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One rank's times of a cell, in ns: of the call, of reading the result, and of both in one pass.
enum Figure : std::size_t { mean, p50, read_mean, read_p50, both_p50, figure_count };
using Figures = std::array<double, figure_count>;

inline Figures figures_of(const Times& times) {
  std::vector<double> both = times.call_ns;
  for (std::size_t i = 0; i < std::min(both.size(), times.read_ns.size()); ++i) both[i] += times.read_ns[i];
  return {mean_of(times.call_ns), median_of(times.call_ns), mean_of(times.read_ns), median_of(times.read_ns),
          median_of(both)};
}

}  // namespace compare
