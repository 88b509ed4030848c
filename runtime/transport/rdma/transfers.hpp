// Transfers: the tickets of one RdmaWire.
#pragma once

#include <cstdint>

#include "runtime/base/status.hpp"
#include "runtime/transport/rdma/device.hpp"
#include "runtime/transport/ticket_table.hpp"

namespace hmc::transport::rdma {

/// An operation that the device doesn't have, as a loop of compare-swaps on the 8-byte word that contains the operand.
struct AtomicLoop {
  Atomic atomic{};
  std::uint64_t word = 0;  ///< address of the 8-byte word at the target
  std::uint32_t rkey = 0;
  std::uint8_t byte = 0;    ///< of the operand in the word: 0 or 4
  std::uint64_t guess = 0;  ///< the value with which the compare-swap in flight succeeds
  std::uint64_t desired = 0;
  std::uint64_t chain = 0;  ///< Chain::number at its last compare-swap
  std::uint32_t attempts = 0;
};

inline base::Status no_memory(int peer) noexcept {
  return base::Status::failure(Code::out_of_memory, "no memory for a transfer", peer);
}

struct Transfer {
  int peer = -1;                  ///< -1: several
  std::uint32_t left = 0;         ///< requests not yet completed
  const void* channel = nullptr;  ///< abandoned when this channel ends; null: none
  bool pinned = false;            ///< the device accesses the caller's memory
  Owned<ibv_mr> registration{};   ///< of the caller's memory, for this transfer
  void* result = nullptr;
  std::uint8_t width = 8;  ///< of the result
  bool is_loop = false;
  AtomicLoop loop{};
  base::Status status{};  ///< the first failure
};

/// Under the wire's lock, except test().
class Transfers : public TicketTable<Transfer> {
 public:
  /// One request of the transfer has completed. The transfer ends with its last request: until then the device may
  /// access the caller's memory.
  void advance(Ticket ticket, const base::Status& status) noexcept {
    Transfer* const transfer = find(ticket);
    if (transfer == nullptr) return;
    if (!status.ok() && transfer->status.ok()) transfer->status = status;
    if (transfer->left > 0 && --transfer->left > 0) return;
    transfer->registration.reset();
    transfer->pinned = false;
    if (transfer->status.ok())
      release(ticket);
    else
      fail(ticket, transfer->status);
  }
};

}  // namespace hmc::transport::rdma
