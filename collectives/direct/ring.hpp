// How an input goes through its owner's staging: block by block, in chunks.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/direct/direct_team.hpp"
#include "collectives/direct/roles.hpp"

namespace hmc::collectives {

inline constexpr std::size_t ring_slots = 4;

/// Of a block: small enough that giver and taker overlap, large enough that flags don't matter.
constexpr std::size_t staged_at_once(std::size_t block) noexcept {
  return block <= std::size_t{128} << 10 ? std::size_t{32} << 10 : std::size_t{64} << 10;
}

/// Below this, waiting for each chunk costs more than what a schedule does.
inline constexpr std::size_t least_chunk = 1024;

inline std::size_t parts_of(const DirectTeam& team, schedule::Collective collective) noexcept {
  return Roles::has_parts_in(collective) ? static_cast<std::size_t>(team.size()) : 1;
}

constexpr std::size_t slot_stride(std::size_t parts) noexcept { return slot_bytes / parts / 8 * 8; }

/// Of a block: a slot of the ring holds one of each part, in whole elements (if it is to be reduced) and lines.
inline std::size_t chunk_of(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t parts = parts_of(team, call.collective);
  const std::size_t element = schedule::reduces(call.collective) ? call.element_bytes : 1;
  const std::size_t most = std::min(team.staging_bytes() / ring_slots / parts, staged_at_once(block));
  return most / line_bytes * line_bytes / element * element;
}

/// Whether a block that no slot holds is worth going through the ring. All ranks come to the same answer.
inline bool fits_ring(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t chunk = chunk_of(team, call, block);
  return chunk >= std::min(block, least_chunk) && block / chunk < DirectTeam::too_many_steps - 1;
}

}  // namespace hmc::collectives
