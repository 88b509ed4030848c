// Non-blocking put_signal, for the execution of schedules.
#pragma once

#include <algorithm>

#include "runtime/progress/nudge.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

/// Doesn't check its arguments. The source may be reused after `look` returns ok.
inline base::Status begin_put_signal(const WindowCore& core, int rank, std::uint64_t offset, const void* source,
                                     std::size_t bytes, std::uint64_t signal_offset, std::uint64_t value,
                                     std::uint64_t& ticket) noexcept {
  return core.peers()[static_cast<std::size_t>(rank)].channel->put_signal(offset, source, bytes, signal_offset, value,
                                                                          ticket);
}
/// As begin_put_signal, for a peer that may have dropped its team: then nothing happens.
inline base::Status begin_notify(const WindowCore& core, int rank, std::uint64_t offset, const void* source,
                                 std::size_t bytes, std::uint64_t signal_offset, std::uint64_t value,
                                 std::uint64_t& ticket) noexcept {
  return core.peers()[static_cast<std::size_t>(rank)].channel->notify(offset, source, bytes, signal_offset, value,
                                                                      ticket);
}
/// Called after begin_put_signal to a mapped peer, which may be computing: nudges the peer's progress thread. For other
/// peers the target's wire does this when the bytes have arrived.
inline void nudge(const WindowCore& core, int rank) noexcept {
  const WindowPeer& peer = core.peers()[static_cast<std::size_t>(rank)];
  if (peer.direct != nullptr) progress::nudge(core.fabric().waiter.page().doorbell(peer.local_index));
}
/// Returns ok, in_progress, or the failure. Progresses the wire once if the put is in progress. After any result except
/// in_progress the ticket is invalid.
inline base::Status look(const WindowCore& core, int rank, std::uint64_t ticket) noexcept {
  return core.fabric().tickets.test(core.peers()[static_cast<std::size_t>(rank)].wire, ticket);
}
/// Abandons the put: on return the source is no longer read.
inline void abandon(const WindowCore& core, int rank, std::uint64_t ticket) noexcept {
  core.fabric().tickets.abandon(core.peers()[static_cast<std::size_t>(rank)].wire, ticket);
}

using DirectReceive = transport::DirectReceive;
/// Until end_receive_into, puts of peers into that part of this rank's memory may write to `receive.to` instead: see
/// Wire::receive_into. Returns false if no wire of this window supports it.
inline bool receive_into(const WindowCore& core, DirectReceive& receive) noexcept {
  // Only on the first wire that supports it: otherwise the threads of two wires would write the same `parts`. Bytes
  // from another wire are written to the region and copied from there.
  return std::ranges::any_of(core.fabric().wires,
                             [&](const auto& wire) { return wire->receive_into(core.region(), receive); });
}
/// On return no put writes to `receive.to`, and `parts` lists the parts that were received directly.
inline void end_receive_into(const WindowCore& core, DirectReceive& receive) noexcept {
  for (const auto& wire : core.fabric().wires) wire->end_receive_into(core.region(), receive);
}

}  // namespace hmc::rma
