// Slot by slot: in each round the root sends a piece to everybody, and the others send an empty word,
// which tells the root that the piece before has been taken.
#include <algorithm>
#include <cstring>

#include "collectives/broadcast/broadcast.hpp"

namespace hmc::collectives {

using base::Status;

Status broadcast_rounds(RoundTeam& team, const BroadcastCall& call) noexcept {
  if (const Status status = team.begin(call.signature()); !status.ok()) return status;
  const bool is_root = team.rank() == call.root;
  auto* const data = static_cast<std::byte*>(call.data);
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(team.slot_bytes(), call.bytes - offset);
    const std::span<const std::byte> mine =
        is_root ? std::span<const std::byte>(data + offset, piece) : std::span<const std::byte>{};
    if (const Status status = team.round([&](int) noexcept { return mine; }); !status.ok()) return status;
    if (!is_root && piece > 0) std::memcpy(data + offset, team.received(call.root), piece);
    offset += piece;
  } while (offset < call.bytes);
  return {};
}

}  // namespace hmc::collectives
