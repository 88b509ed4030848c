// A put with a signal that is begun here and looked at later: what schedules are executed with.
#pragma once

#include "runtime/window/core.hpp"

namespace hmc::window {

/// Checks no argument. The source may be reused once `look` returns ok.
base::Status begin_put_signal(const Core& core, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                              std::uint64_t signal_offset, std::uint64_t value, std::uint64_t& ticket) noexcept;
/// After it, where the rank may compute meanwhile: wakes the thread that goes on with what it has started. A wire does
/// that at the target, when the bytes are there.
inline void nudge(const Core& core, int rank) noexcept {
  const Peer& peer = core.peers()[static_cast<std::size_t>(rank)];
  if (peer.direct != nullptr) core.fabric().waiter.nudge(peer.local_index);
}
/// ok, in_progress, or what went wrong; drives the wire if it is in progress. Done with a ticket that isn't.
base::Status look(const Core& core, int rank, std::uint64_t ticket) noexcept;
/// Gives it up: the source isn't read any more.
void abandon(const Core& core, int rank, std::uint64_t ticket) noexcept;

using DirectReceive = transport::DirectReceive;
/// Until end_receive_into, puts of others into that part of this rank's memory may write to `receive.to` instead: see
/// Wire::receive_into. False: no wire of this window can.
bool receive_into(const Core& core, DirectReceive& receive) noexcept;
/// Afterwards nothing writes to it, and `parts` says what did.
void end_receive_into(const Core& core, DirectReceive& receive) noexcept;

}  // namespace hmc::window
