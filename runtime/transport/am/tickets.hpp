// Tickets: the transfers in flight on one AmWire.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.hpp"
#include "runtime/transport/ticket_table.hpp"

namespace hmc::transport::am {

struct AmTransfer {
  int peer = -1;                     ///< the peer that the transfer waits for; -1: several
  std::uint64_t left = 0;            ///< parts or bytes not yet completed
  std::byte* destination = nullptr;  ///< of a get
  std::uint64_t bytes = 0;           ///< of a get
  void* result = nullptr;            ///< of an atomic
  const void* channel = nullptr;     ///< the transfer is abandoned when this channel ends; null: none
  std::uint8_t width = 0;            ///< of an atomic
  std::uint32_t sending = 0;         ///< messages and requests of the link that access the caller's memory
};

/// Threads: under AmWire's lock, except test().
class Tickets : public TicketTable<AmTransfer> {
 public:
  using Transfer = AmTransfer;

  /// Records that `amount` more parts or bytes have completed; frees the slot when the transfer is complete.
  void advance(Ticket ticket, std::uint64_t amount) noexcept {
    Transfer* const transfer = find(ticket);
    if (transfer == nullptr) return;
    transfer->left -= amount < transfer->left ? amount : transfer->left;
    if (transfer->left == 0) release(ticket);
  }
  /// Fails all transfers that wait for `peer` or for several ranks, except those whose memory the link still accesses:
  /// they fail when the link releases the last of its messages.
  void fail_peer(int peer, base::Status status) noexcept {
    for_each([&](Ticket ticket, const Transfer& transfer) noexcept {
      if ((transfer.peer < 0 || transfer.peer == peer) && transfer.sending == 0) fail(ticket, status);
    });
  }
};

}  // namespace hmc::transport::am
