// Slot by slot: in each round everyone sends its next piece to everyone.
#include <algorithm>
#include <cstring>

#include "collectives/allgather/allgather.hpp"

namespace hmc::collectives {

using base::Status;

Status allgather_rounds(RoundTeam& team, const AllgatherCall& call) noexcept {
  if (const Status status = team.begin(call.signature()); !status.ok()) return status;
  const auto* const in = static_cast<const std::byte*>(call.in);
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(team.slot_bytes(), call.bytes - offset);
    const std::span<const std::byte> mine(in + offset, piece);
    if (const Status status = team.round([&](int) noexcept { return mine; }); !status.ok()) return status;
    for (int peer = 0; peer < team.size() && piece > 0; ++peer) {
      const std::byte* const source = peer == team.rank() ? mine.data() : team.received(peer);
      std::byte* const destination = call.block(peer) + offset;
      if (source != destination) std::memcpy(destination, source, piece);
    }
    offset += piece;
  } while (offset < call.bytes);
  return {};
}

}  // namespace hmc::collectives
