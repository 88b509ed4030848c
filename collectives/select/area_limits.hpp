// AreaLimits: the scratch and slots of one area of a team's arena, and the largest piece of a call that fits into it.
#pragma once

#include <cstdint>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

struct AreaLimits {
  std::uint64_t scratch_bytes = 0;
  std::uint32_t slots = 0;
  friend bool operator==(const AreaLimits&, const AreaLimits&) = default;
};

/// The limits of each area, equal on every rank of a team.
AreaLimits area_limits(int size, bool one_node) noexcept;

/// True if the call fits on all ranks, for any root, in place or not. `count` is the size of the vector, or of the
/// largest block.
bool fits(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
          std::uint64_t count, const AreaLimits& limits);
/// The largest of the tried counts that fits; 0 if not even one element fits.
std::uint64_t largest_piece(const schedule::Algorithm& algorithm, const schedule::Shape& shape,
                            const schedule::Call& call, const AreaLimits& limits);

}  // namespace hmc::collectives
