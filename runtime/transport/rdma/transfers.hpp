// Transfers: the tickets of one RdmaWire.
#pragma once

#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "runtime/base/status.hpp"
#include "runtime/transport/rdma/device.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::rdma {

/// An operation that the device doesn't have, as a loop of compare-swaps on the 8-byte word that contains the operand.
struct AtomicLoop {
  Atomic atomic{};
  std::uint64_t word = 0;  ///< address of the 8-byte word at the target
  std::uint32_t rkey = 0;
  std::uint8_t byte = 0;    ///< of the operand in the word: 0 or 4
  std::uint64_t guess = 0;  ///< the value with which the compare-swap in flight succeeds
  std::uint64_t desired = 0;
  std::uint32_t attempts = 0;
};

struct Transfer {
  int peer = -1;                  ///< -1: several
  std::uint32_t left = 0;         ///< requests not yet completed
  const void* channel = nullptr;  ///< abandoned when this channel ends; null: none
  bool pinned = false;            ///< the device accesses the caller's memory
  Owned<ibv_mr> registration;     ///< of the caller's memory, for this transfer
  std::uint64_t* result = nullptr;
  std::uint8_t width = 8;  ///< of the result
  bool is_loop = false;
  AtomicLoop loop;
  base::Status status;  ///< the first failure
};

/// A slot is free as soon as its transfer has completed, so a ticket that is never tested costs nothing; the slot's
/// generation shows a later test() that the transfer is complete. A failed transfer keeps its slot until it is tested
/// or abandoned, or its channel ends. Memory grows to the largest number in flight at once. Threads: the wire's owner.
class Transfers {
 public:
  /// `done` if out of memory.
  Ticket open(int peer, std::uint32_t left, const void* channel) noexcept {
    if (free_.empty()) {
      try {
        free_.reserve(slots_.size() + 1);  // so that release() doesn't allocate
        slots_.emplace_back();
      } catch (const std::bad_alloc&) {
        return done;
      }
      free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.is_open = true;
    slot.transfer = Transfer{};
    slot.transfer.peer = peer;
    slot.transfer.left = left;
    slot.transfer.channel = channel;
    return (Ticket{slot.generation} << 32) | index;
  }
  /// Null if the transfer is complete.
  Transfer* find(Ticket ticket) noexcept {
    const auto index = static_cast<std::uint32_t>(ticket);
    if (ticket == done || index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    return slot.is_open && slot.generation == ticket >> 32 ? &slot.transfer : nullptr;
  }
  /// One request of the transfer has completed.
  void advance(Ticket ticket, const base::Status& status) noexcept {
    Transfer* const transfer = find(ticket);
    if (transfer == nullptr) return;
    if (!status.ok() && transfer->status.ok()) transfer->status = status;
    if (transfer->left > 0 && --transfer->left > 0) return;
    transfer->registration.reset();
    transfer->pinned = false;
    if (transfer->status.ok()) release(ticket);
  }
  void release(Ticket ticket) noexcept {
    if (find(ticket) == nullptr) return;
    const auto index = static_cast<std::uint32_t>(ticket);
    Slot& slot = slots_[index];
    slot.is_open = false;
    slot.transfer.registration.reset();
    if (++slot.generation == 0) slot.generation = 1;  // generation 0 with index 0 would read as `done`
    free_.push_back(index);
  }
  base::Status test(Ticket ticket) noexcept {
    const Transfer* const transfer = find(ticket);
    if (transfer == nullptr) return {};
    if (transfer->left > 0) return base::Status::in_progress();
    const base::Status status = transfer->status;
    release(ticket);
    return status;
  }
  /// The next transfer of `channel` at or after slot `index`, which moves past it; `done` after the last.
  Ticket next_of(const void* channel, std::size_t& index) const noexcept {
    while (index < slots_.size()) {
      const Slot& slot = slots_[index++];
      if (slot.is_open && slot.transfer.channel == channel) return (Ticket{slot.generation} << 32) | (index - 1);
    }
    return done;
  }

 private:
  struct Slot {
    std::uint32_t generation = 1;
    bool is_open = false;
    Transfer transfer;
  };
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace hmc::transport::rdma
