// Tickets: the transfers under way of one wire.
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

/// A transfer's slot is free again the moment it has ended well, so a ticket that nobody asks about
/// costs nothing; its generation tells a later test() that it is over. A failed one keeps its slot
/// until it was asked, was given up, or its channel ends. Memory grows to the largest number ever under
/// way.
///
/// Threads: all under the engine's lock, except test(), which the wire's user calls without; slots don't move when
/// others are added (Slots).
class Tickets {
 public:
  struct Transfer {
    int peer = -1;                     ///< whom it waits for; -1: several
    std::uint64_t left = 0;            ///< parts or bytes to come
    std::byte* destination = nullptr;  ///< of a get
    std::uint64_t bytes = 0;           ///< of a get
    std::uint64_t* result = nullptr;   ///< of an atomic
    const void* channel = nullptr;     ///< with whose end it is given up; null: none
    std::uint32_t sending = 0;         ///< messages in the link's hands that it reads the caller's memory for
  };

  /// `done` if there is no memory for one more.
  Ticket open(const Transfer& transfer) noexcept;
  /// Null if it is over.
  Transfer* find(Ticket ticket) noexcept;
  /// One that failed, too, as long as it has its slot.
  Transfer* known(Ticket ticket) noexcept;
  /// The next transfer of `channel` at or after slot `index`, which moves past it; `done` after the last.
  Ticket next_of(const void* channel, std::size_t& index) const noexcept;
  /// `amount` more is there; ends the transfer when nothing is left.
  void advance(Ticket ticket, std::uint64_t amount) noexcept;
  void fail(Ticket ticket, base::Status status) noexcept;
  /// As if it had never been: for one that couldn't be started, or was given up.
  void drop(Ticket ticket) noexcept;
  /// Everything that waits for `peer`, and all that waits for several ranks, except whose memory is still read.
  void fail_peer(int peer, base::Status status) noexcept;

  base::Status test(Ticket ticket, std::mutex& lock) noexcept;
  std::size_t under_way() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    // The upper half of the tickets it has given out. Raised (release) when a transfer has ended, so
    // that test() (acquire) sees its result and its bytes.
    std::atomic<std::uint32_t> generation{1};
    // Set (release) after `status`.
    std::atomic<bool> failed{false};
    bool open = false;
    base::Status status;
    Transfer transfer;
  };
  /// Slots that stay where they are: blocks, each twice as long as the one before. Only grows.
  class Slots {
   public:
    Slots() = default;
    ~Slots() {
      for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
    }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;
    // Acquire: pairs with the release in add; who sees the number sees the slots.
    std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
    Slot& operator[](std::size_t index) const noexcept {
      const std::size_t place = index + first;
      const unsigned block = static_cast<unsigned>(std::bit_width(place)) - first_bits;
      // Relaxed: the block was there before the size that allows this index.
      return blocks_[block].load(std::memory_order_relaxed)[place - (first << block)];
    }
    /// Under the engine's lock; may throw bad_alloc.
    void add() {
      const std::size_t place = size_.load(std::memory_order_relaxed) + first;
      if (std::has_single_bit(place))
        blocks_[static_cast<unsigned>(std::bit_width(place)) - first_bits].store(new Slot[place],
                                                                                 std::memory_order_relaxed);
      size_.store(place - first + 1, std::memory_order_release);
    }

   private:
    static constexpr std::size_t first = 64;  // slots of the first block
    static constexpr unsigned first_bits = 7;
    std::array<std::atomic<Slot*>, 26> blocks_{};  // more slots than a ticket has numbers for
    std::atomic<std::size_t> size_{0};
  };
  static std::uint32_t index_of(Ticket ticket) noexcept { return static_cast<std::uint32_t>(ticket); }
  static std::uint32_t generation_of(Ticket ticket) noexcept { return static_cast<std::uint32_t>(ticket >> 32); }
  void release(std::uint32_t index) noexcept;

  Slots slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace hmc::transport::am
