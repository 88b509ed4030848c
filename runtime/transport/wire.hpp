// The abstract transport: a Wire moves bytes between one rank and its peers' regions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"
#include "runtime/progress/tickets.hpp"

namespace hmc::transport {

using progress::done;
using progress::Ticket;

enum class AtomicOp : std::uint8_t {
  fetch_add,
  swap,
  compare_swap,
  fetch,
  set,
  add,
  band,
  bor,
  bxor,
  fetch_and,
  fetch_or,
  fetch_xor
};
constexpr bool returns_value(AtomicOp op) noexcept {
  return op != AtomicOp::set && op != AtomicOp::add && op != AtomicOp::band && op != AtomicOp::bor &&
         op != AtomicOp::bxor;
}

/// One atomic on a naturally aligned word of `width` (4 or 8) bytes at the target.
struct Atomic {
  AtomicOp op;
  std::uint8_t width;
  std::uint64_t operand;  ///< the value added, stored, and-ed ...; for compare_swap the desired one
  std::uint64_t compare;  ///< compare_swap only: the expected one
};

/// Memory that one rank registers: its part of a window.
struct Region {
  std::byte* base = nullptr;  ///< an address in memory of `type`; the CPU may be unable to access it
  std::size_t bytes = 0;
  MemoryType type = MemoryType::CPU;
  std::shared_ptr<base::Segment> segment;  ///< the shared memory that contains the bytes; may be null
  std::size_t segment_offset = 0;
};

/// Redirects puts into a part of a region to other local memory: see Wire::receive_into.
struct DirectReceive {
  std::uint64_t offset = 0;  ///< in the region
  std::uint64_t bytes = 0;
  std::byte* to = nullptr;
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// The byte ranges that were written to `to`, relative to `offset`; all other bytes are in the region. Valid after
  /// end_receive_into. When all entries are in use, further bytes go to the region.
  std::array<Part, 8> parts{};
  std::size_t count = 0;
};

/// Properties of a wire: printed by hmcinfo, read where a wire is chosen.
struct Capabilities {
  bool direct = false;             ///< channels provide load/store addresses
  bool needs_target = false;       ///< the target's CPU executes verbs, so the target needs a progress thread
  bool needs_origin = false;       ///< a verb in flight may have further steps, which the origin's progress() starts
  bool one_sided = false;          ///< put, get, put_signal and flush complete without the target's CPU
  std::size_t put_inline_max = 0;  ///< puts up to this size complete locally at once
  bool atomic_with_cpu = true;     ///< atomics are atomic with those of the target's CPU
};

/// Access to one peer's region. Created by Wire::connect, lives as long as the window. The destructor abandons the
/// transfers in flight on it. If a verb fails at once, no transfer is in flight.
/// Hot path: noexcept, no allocation in the steady state, bounds checked by the caller (the window).
/// Threads: as its wire.
class Channel {
 public:
  virtual ~Channel() = default;
  /// The address of the region's first byte for load and store; null if this CPU can't access the region.
  virtual std::byte* direct() const noexcept { return nullptr; }
  /// The owner of the mapping at direct(). Null: the mapping ends with the channel.
  virtual std::shared_ptr<void> mapping() const noexcept { return nullptr; }

  /// The source may be reused when the ticket is done.
  virtual base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept = 0;
  /// The destination holds the bytes when the ticket is done.
  virtual base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept = 0;
  /// Writes the bytes, then stores the 64-bit `value` at `signal_offset`. A target that loads the value (acquire) also
  /// sees the bytes, and all puts of this rank to this peer before fence().
  virtual base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                  std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept = 0;
  /// As put_signal, for a peer that may have retired the region: then nothing happens, now or later.
  virtual base::Status notify(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                              std::uint64_t value, Ticket& ticket) noexcept {
    return put_signal(offset, source, bytes, signal_offset, value, ticket);
  }
  /// `result` holds the old value, atomic.width bytes, when the ticket is done. It may be null if the operation returns
  /// nothing.
  virtual base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept = 0;
};

/// States whether a wire serves the pair (this rank, peer).
struct Reachability {
  bool yes = false;
  std::string why;  ///< the reason, as one clause for messages
};

/// One concrete transport of one rank. Set-up calls may throw hmc::Error; the rest is noexcept.
/// Threads: the owner; after the set-up also the rank's progress thread, at the same time (Background). A wire's own
/// thread: its class comment states the rules.
///
/// Contract (tests/conformance checks it for every wire):
///  - after fence(), puts and atomics to a peer become visible there after those issued before it;
///  - when a flush ticket is done, earlier puts and atomics are visible at the target, even while the
///    target computes or sleeps;
///  - atomics are atomic with each other and, if Capabilities::atomic_with_cpu, with the target's own on the same word;
///  - a transfer that is abandoned, or whose channel ends, no longer accesses local memory when the call returns;
///  - the wire outlives its channels.
class Wire : public progress::WireTickets {
 public:
  virtual std::string_view name() const noexcept = 0;
  virtual Capabilities capabilities() const noexcept = 0;

  // ---- set-up
  /// The address by which peers reach this rank; exchanged once when the job starts.
  virtual base::Bytes address() = 0;
  /// Sets the addresses of all ranks, indexed by rank; empty for a rank without this wire.
  virtual void set_peer_addresses(std::vector<base::Bytes> addresses) = 0;
  virtual Reachability reaches(int peer) const = 0;

  /// Registers a region of this rank and returns the key for the peers. Called once per window.
  virtual base::Bytes register_region(const Region& mine) = 0;
  /// Collective over the ranks of the window: creates channels to the regions of `peers`, the ranks that this rank
  /// reaches by this wire. `keys` holds the keys of all ranks, indexed by rank; an empty key means no region on this
  /// wire. `mine` is the region that this rank registered. May communicate with the peers; connects on first use.
  virtual std::vector<std::unique_ptr<Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                        std::span<const int> peers, base::Deadline deadline) = 0;
  /// Requires that all peers have destroyed their channels.
  virtual void deregister_region(const Region& mine) noexcept = 0;
  /// As deregister_region, while peers may still have channels. Their transfers with the region may fail, others not.
  virtual void retire_region(const Region& mine) noexcept { deregister_region(mine); }

  // ---- the caller's memory
  /// Registers local memory, so that puts from it and gets to it need no registration per call. Returns false if this
  /// wire needs none. Throws Error{unavailable} if the memory can't be registered.
  virtual bool register_local([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::size_t bytes) { return false; }
  /// Waits for the transfers in flight, at most half a second; the memory stays registered if some are left.
  virtual void deregister_local([[maybe_unused]] const std::byte* memory, [[maybe_unused]] std::size_t bytes) noexcept {
  }

  // ---- direct receive
  /// Until end_receive_into(), puts into this part of this rank's region may write to `receive.to` instead. Returns
  /// false if the wire doesn't support it. Each byte may be put at most once meanwhile. The part must not contain words
  /// that a rank waits on.
  virtual bool receive_into([[maybe_unused]] const Region& mine, [[maybe_unused]] DirectReceive& receive) noexcept {
    return false;
  }
  /// On return the wire no longer writes to `receive.to`. Does nothing if `receive` is unknown.
  virtual void end_receive_into([[maybe_unused]] const Region& mine, [[maybe_unused]] DirectReceive& receive) noexcept {
  }

  // ---- completion
  virtual base::Status fence() noexcept = 0;
  /// peer < 0: all peers.
  virtual base::Status flush(int peer, Ticket& ticket) noexcept = 0;
  /// Called when all ranks have finished with the wire. Only the destructor may follow.
  virtual void all_left() noexcept {}
};

/// A wire that also serves peers outside a job: each side numbers its peers on its own, and adds and removes them at
/// any time. The numbers are below the size that the constructor got. The caller carries the addresses to the peer over
/// an authenticated connection. A job calls set_peer_addresses() instead.
class OpenWire : public Wire {
 public:
  /// The address for one peer, by which it reaches this process as the peer `number`. Each call makes the peer's
  /// earlier address invalid.
  virtual base::Bytes offer(int number) = 0;
  /// Sets the address that the peer has offered, after offer(number). Throws Error{refused} if it can't be read.
  virtual void add_peer(int number, base::ByteView address) = 0;
  /// Closes the connection and fails the transfers of the peer; then `number` is free. Requires that the channels to
  /// the peer are destroyed.
  virtual void remove_peer(int number) noexcept = 0;
  /// ok, or the peer's failure.
  virtual base::Status peer_status(int number) noexcept = 0;
};

}  // namespace hmc::transport
