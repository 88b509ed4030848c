// The grid of ranks of a program that divides 2 or 3 dimensions.
#pragma once

#include <array>
#include <stdexcept>
#include <string>

namespace apps {

/// Factors of `ranks` for 1 to 3 dimensions, as equal as possible, the largest first. Unused dimensions are 1.
inline std::array<int, 3> rank_grid(int ranks, int dimensions) {
  std::array<int, 3> grid{ranks, 1, 1};
  const auto is_better = [](const std::array<int, 3>& one, const std::array<int, 3>& other) {
    return one[0] + one[1] + one[2] < other[0] + other[1] + other[2];
  };
  for (int b = 1; b <= (dimensions >= 2 ? ranks : 1); ++b) {
    for (int c = 1; c <= (dimensions == 3 ? b : 1); ++c) {
      if (ranks % (b * c) != 0 || ranks / (b * c) < b) continue;
      if (const std::array<int, 3> found{ranks / (b * c), b, c}; is_better(found, grid)) grid = found;
    }
  }
  return grid;
}

inline int divided(int length, int parts, const char* program) {
  if (length % parts != 0)
    throw std::invalid_argument(std::string(program) + ": " + std::to_string(length) + " isn't a multiple of " +
                                std::to_string(parts));
  return length / parts;
}

}  // namespace apps
