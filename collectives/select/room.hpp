// Room: what one area of a team's arena has, and how much of a call fits into it.
#pragma once

#include <cstdint>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

struct Room {
  std::uint64_t scratch_bytes = 0;
  std::uint32_t slots = 0;
  friend bool operator==(const Room&, const Room&) = default;
};

/// Of each area, on every rank of such a team.
Room room_of(int size, bool one_node) noexcept;

/// No rank needs more than there is, whichever is the root, in place or not. `count` is of a vector, or of the largest
/// block.
bool fits(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
          std::uint64_t count, const Room& room);
/// The largest count that was found to fit; 0: not even one element does.
std::uint64_t longest_piece(const schedule::Algorithm& algorithm, const schedule::Shape& shape,
                            const schedule::Call& call, const Room& room);

}  // namespace hmc::collectives
