// Tickets: the transfers in flight on one wire.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/base/status.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::am {

/// A transfer's slot is free as soon as the transfer has completed, so a ticket that is never tested costs nothing; the
/// slot's generation shows a later test() that the transfer is complete. A failed transfer keeps its slot until it is
/// tested or abandoned, or its channel ends. Memory grows to the largest number in flight at once.
///
/// Threads: all under AmWire's lock, except test(), which the owner calls without it. Slots don't move when others are
/// added (Slots).
class Tickets {
 public:
  struct Transfer {
    int peer = -1;                     ///< the peer that the transfer waits for; -1: several
    std::uint64_t left = 0;            ///< parts or bytes not yet completed
    std::byte* destination = nullptr;  ///< of a get
    std::uint64_t bytes = 0;           ///< of a get
    std::uint64_t* result = nullptr;   ///< of an atomic
    const void* channel = nullptr;     ///< the transfer is abandoned when this channel ends; null: none
    std::uint32_t sending = 0;         ///< messages held by the link that read the caller's memory
  };

  /// `done` if out of memory.
  Ticket open(const Transfer& transfer) noexcept;
  /// Null if the transfer is complete or has failed.
  Transfer* find(Ticket ticket) noexcept;
  /// Like find(), but also returns a failed transfer while it has its slot.
  Transfer* known(Ticket ticket) noexcept;
  /// The next transfer of `channel` at or after slot `index`, which moves past it; `done` after the last.
  Ticket next_of(const void* channel, std::size_t& index) const noexcept;
  /// Records that `amount` more parts or bytes have completed; frees the slot when the transfer is complete.
  void advance(Ticket ticket, std::uint64_t amount) noexcept;
  void fail(Ticket ticket, base::Status status) noexcept;
  /// Frees the slot of a transfer that couldn't be started or was abandoned.
  void drop(Ticket ticket) noexcept;
  /// Fails all transfers that wait for `peer` or for several ranks, except those whose memory the link still reads.
  void fail_peer(int peer, base::Status status) noexcept;

  base::Status test(Ticket ticket, std::mutex& lock) noexcept;
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
    /// Under AmWire's lock; may throw bad_alloc.
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
  static std::uint32_t generation_of(Ticket ticket) noexcept { return static_cast<std::uint32_t>(ticket >> 32); }
  void release(std::uint32_t index) noexcept;

  Slots slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace hmc::transport::am
