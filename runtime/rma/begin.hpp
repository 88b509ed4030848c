// Non-blocking put_signal, for the execution of schedules.
#pragma once

#include "runtime/progress/nudge.hpp"
#include "runtime/rma/core.hpp"

namespace hmc::rma {

/// Doesn't check its arguments. The source may be reused after `look` returns ok.
base::Status begin_put_signal(const Core& core, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                              std::uint64_t signal_offset, std::uint64_t value, std::uint64_t& ticket) noexcept;
/// After begin_put_signal to a mapped peer, which may be computing: nudges the peer's progress thread. For other peers
/// the wire nudges at the target, when the bytes have arrived.
inline void nudge(const Core& core, int rank) noexcept {
  const Peer& peer = core.peers()[static_cast<std::size_t>(rank)];
  if (peer.direct != nullptr) progress::nudge(core.fabric().waiter.page().doorbell(peer.local_index));
}
/// Returns ok, in_progress, or the failure. Drives the wire once if the put is in progress. Any result but in_progress
/// ends the ticket.
base::Status look(const Core& core, int rank, std::uint64_t ticket) noexcept;
/// Abandons the put: afterwards the source isn't read any more.
void abandon(const Core& core, int rank, std::uint64_t ticket) noexcept;

using DirectReceive = transport::DirectReceive;
/// Until end_receive_into, puts of peers into that part of this rank's memory may write to `receive.to` instead: see
/// Wire::receive_into. False: no wire of this window supports it.
bool receive_into(const Core& core, DirectReceive& receive) noexcept;
/// Afterwards nothing writes to `receive.to`, and `parts` lists the parts that were received directly.
void end_receive_into(const Core& core, DirectReceive& receive) noexcept;

}  // namespace hmc::rma
