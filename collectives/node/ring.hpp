// The ring of chunks in a rank's staging. The owner fills it with its input; the peers copy from it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/node/direct_team.hpp"
#include "collectives/node/roles.hpp"

namespace hmc::collectives {

inline constexpr std::size_t ring_slots = 4;

/// Upper limit of a chunk: small enough that writer and readers overlap, large enough that the cost of the flags is
/// negligible.
constexpr std::size_t staged_at_once(std::size_t block) noexcept {
  return block <= std::size_t{128} << 10 ? std::size_t{32} << 10 : std::size_t{64} << 10;
}

/// With smaller chunks the waits cost more than a schedule of the network engine.
inline constexpr std::size_t least_chunk = 1024;

inline std::size_t parts_of(const DirectTeam& team, schedule::Collective collective) noexcept {
  return Roles::has_parts_in(collective) ? static_cast<std::size_t>(team.size()) : 1;
}

constexpr std::size_t slot_stride(std::size_t parts) noexcept { return slot_bytes / parts / 8 * 8; }

/// Bytes of a chunk. A slot of the ring holds one chunk of each part. A chunk is a multiple of a line and, in
/// reductions, of an element.
inline std::size_t chunk_of(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t parts = parts_of(team, call.collective);
  const std::size_t element = schedule::reduces(call.collective) ? call.element_bytes : 1;
  const std::size_t most = std::min(team.staging_bytes() / ring_slots / parts, staged_at_once(block));
  return most / line_bytes * line_bytes / element * element;
}

/// True if the ring is efficient for a block that doesn't fit a slot. All ranks get the same result.
inline bool fits_ring(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t chunk = chunk_of(team, call, block);
  return chunk >= std::min(block, least_chunk) && block / chunk < DirectTeam::too_many_steps - 1;
}

}  // namespace hmc::collectives
