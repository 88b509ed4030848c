// TicketTable: the transfers in flight on one wire, by their tickets.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/status.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

/// A transfer's slot is free as soon as the transfer has completed, so a ticket that is never tested costs nothing; the
/// slot's generation shows a later test() that the transfer is complete. A failed transfer keeps its slot until it is
/// tested or abandoned, or its channel ends. Memory grows to the largest number in flight at once. `Transfer` has a
/// member `const void* channel`: the transfer is abandoned when this channel ends; null: none.
///
/// Threads: one at a time (under the wire's lock, if it has one), except test(), which the owner calls without it.
/// Slots don't move when others are added (Slots).
template <typename Transfer> class TicketTable {
 public:
  /// `done` if out of memory.
  Ticket open(Transfer transfer) noexcept {
    if (free_.empty()) {
      try {
        // Reserve first, so that neither the push below nor release() allocates.
        if (free_.capacity() < slots_.size() + 1) free_.reserve(2 * slots_.size() + 16);
        slots_.add();
      } catch (const std::bad_alloc&) {
        return done;
      }
      free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.open = true;
    slot.transfer = std::move(transfer);
    return ticket_of(index);
  }
  /// Null if the transfer is complete. Also returns a failed transfer while it has its slot.
  Transfer* known(Ticket ticket) noexcept {
    if (ticket == done || index_of(ticket) >= slots_.size()) return nullptr;
    Slot& slot = slots_[index_of(ticket)];
    return slot.open && ticket_of(index_of(ticket)) == ticket ? &slot.transfer : nullptr;
  }
  /// Null if the transfer is complete or has failed.
  Transfer* find(Ticket ticket) noexcept {
    Transfer* const transfer = known(ticket);
    // Relaxed: only written by the thread that calls, or under the lock.
    const bool failed = transfer != nullptr && slots_[index_of(ticket)].failed.load(std::memory_order_relaxed);
    return failed ? nullptr : transfer;
  }
  /// The next transfer of `channel` at or after slot `index`, which moves past it; `done` after the last.
  Ticket next_of(const void* channel, std::size_t& index) const noexcept {
    while (index < slots_.size()) {
      const Slot& slot = slots_[index++];
      if (slot.open && slot.transfer.channel == channel) return ticket_of(index - 1);
    }
    return done;
  }
  /// Calls `visit(ticket, transfer)` for all that haven't completed.
  template <typename Visit> void for_each(Visit&& visit) noexcept {
    for (std::size_t index = 0; index < slots_.size(); ++index)
      if (slots_[index].open) visit(ticket_of(index), slots_[index].transfer);
  }
  void fail(Ticket ticket, base::Status status) noexcept {
    if (find(ticket) == nullptr) return;
    Slot& slot = slots_[index_of(ticket)];
    slot.status = status;
    slot.failed.store(true, std::memory_order_release);
  }
  /// The transfer has completed, or was abandoned, or couldn't be started.
  void release(Ticket ticket) noexcept {
    if (known(ticket) != nullptr) release_slot(index_of(ticket));
  }
  /// `lock`: held while a failed transfer's slot becomes free; null: the wire has none.
  base::Status test(Ticket ticket, std::mutex* lock) noexcept {
    if (ticket == done || index_of(ticket) >= slots_.size()) return {};
    Slot& slot = slots_[index_of(ticket)];
    if (slot.generation.load(std::memory_order_acquire) != ticket >> 32) return {};
    if (!slot.failed.load(std::memory_order_acquire)) return base::Status::in_progress();
    const base::Status status = slot.status;
    std::unique_lock<std::mutex> guard;
    if (lock != nullptr) guard = std::unique_lock(*lock);
    release_slot(index_of(ticket));
    return status;
  }
  std::size_t under_way() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    // The upper half of the tickets of this slot. Incremented (release) when a transfer has ended. Pairs with the
    // acquire load in test(), which then also sees the result and the bytes.
    std::atomic<std::uint32_t> generation{1};
    // Stored (release) after `status`; pairs with the acquire load in test().
    std::atomic<bool> failed{false};
    bool open = false;
    base::Status status;
    Transfer transfer;
  };
  /// Slots with stable addresses, in blocks. Each block is twice as long as the previous block. Only grows.
  class Slots {
   public:
    Slots() = default;
    ~Slots() {
      for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
    }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;
    // Acquire: pairs with the release store in add(). A thread that loads the size also sees the slots.
    std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
    Slot& operator[](std::size_t index) const noexcept {
      const std::size_t place = index + first;
      const unsigned block = static_cast<unsigned>(std::bit_width(place)) - first_bits;
      // Relaxed: the block pointer was stored before the size that allows this index.
      return blocks_[block].load(std::memory_order_relaxed)[place - (first << block)];
    }
    /// Under the wire's lock; may throw bad_alloc.
    void add() {
      const std::size_t place = size_.load(std::memory_order_relaxed) + first;
      if (std::has_single_bit(place))
        blocks_[static_cast<unsigned>(std::bit_width(place)) - first_bits].store(new Slot[place],
                                                                                 std::memory_order_relaxed);
      size_.store(place - first + 1, std::memory_order_release);
    }

   private:
    static constexpr std::size_t first = 64;  // slots in the first block
    static constexpr unsigned first_bits = 7;
    std::array<std::atomic<Slot*>, 26> blocks_{};  // all slots that a 32-bit index can address, except 64
    std::atomic<std::size_t> size_{0};
  };
  static std::uint32_t index_of(Ticket ticket) noexcept { return static_cast<std::uint32_t>(ticket); }
  Ticket ticket_of(std::size_t index) const noexcept {
    // Relaxed: only written by the thread that calls, or under the lock.
    return (Ticket{slots_[index].generation.load(std::memory_order_relaxed)} << 32) | index;
  }
  void release_slot(std::uint32_t index) noexcept {
    Slot& slot = slots_[index];
    slot.open = false;
    if constexpr (!std::is_trivially_destructible_v<Transfer>) slot.transfer = Transfer{};
    slot.failed.store(false, std::memory_order_relaxed);  // ordered by the generation's release below
    std::uint32_t next = slot.generation.load(std::memory_order_relaxed) + 1;
    if (next == 0) next = 1;  // generation 0 with index 0 would read as `done`
    slot.generation.store(next, std::memory_order_release);
    free_.push_back(index);
  }

  Slots slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace hmc::transport
