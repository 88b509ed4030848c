// Room: the scratch and slots of one area of a team's arena, and the largest piece of a call that fits into it.
#pragma once

#include <cstdint>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

struct Room {
  std::uint64_t scratch_bytes = 0;
  std::uint32_t slots = 0;
  friend bool operator==(const Room&, const Room&) = default;
};

/// The room of each area, equal on every rank of a team.
Room room_of(int size, bool one_node) noexcept;

/// True if the call fits on all ranks, for any root, in place or not. `count` is the size of the vector, or of the
/// largest block.
bool fits(const schedule::Algorithm& algorithm, const schedule::Shape& shape, const schedule::Call& call,
          std::uint64_t count, const Room& room);
/// The largest of the tried counts that fits; 0 if not even one element fits.
std::uint64_t longest_piece(const schedule::Algorithm& algorithm, const schedule::Shape& shape,
                            const schedule::Call& call, const Room& room);

}  // namespace hmc::collectives
