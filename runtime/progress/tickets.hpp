// Tickets: operations in flight of one rank, and the waits for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/base/status.hpp"
#include "runtime/base/wait.hpp"

namespace hmc::progress {

/// An operation in flight. `done` (0) is a completed one. A ticket stays valid until test() reports completion or
/// failure, or until abandon().
using Ticket = std::uint64_t;
inline constexpr Ticket done = 0;

/// The tickets of a wire, which a wait must drive.
class WireTickets : public base::Progress {
 public:
  /// Returns in_progress, ok, or the failure. Makes no progress: the caller calls progress().
  virtual base::Status test(Ticket ticket) noexcept = 0;
  /// Cancels a transfer: afterwards the wire neither writes its destination nor reads its source, and the ticket is
  /// free. The target may have executed a part of it. Other transfers continue, unless the peer accepts no data: then
  /// the connection may be closed. May block for up to one second. Does nothing to a completed transfer.
  virtual void abandon(Ticket ticket) noexcept = 0;
};

/// Issues tickets as a wire does, for operations without a wire: a team's non-blocking collectives, and transfers that
/// devices carry out.
class TicketSource {
 public:
  virtual ~TicketSource() = default;
  /// Drives the operation. Returns ok, in_progress, or its failure.
  virtual base::Status test(Ticket ticket) noexcept = 0;
  /// A wait for `ticket` passed the job's deadline without a step: all tickets of this source fail.
  virtual void expired(Ticket ticket) noexcept = 0;
  /// Increases with every step. Each increase restarts the job's deadline, so a large call may take longer than it.
  virtual std::uint64_t moves() const noexcept = 0;
  [[noreturn]] virtual void throw_failure(const base::Status& status, const char* operation) = 0;
  /// The source is a team that ended by a mismatch in which `world_rank` aborted, and no call has reported it to this
  /// rank's user yet.
  virtual bool has_unheard_mismatch(int /*world_rank*/) noexcept { return false; }
  /// The source is the world, and the last call of `world_rank` that this rank can read is Runtime::close.
  virtual bool is_closing(int /*world_rank*/) noexcept { return false; }
  /// Observes long waits for its tickets. May be null.
  virtual base::Watch* watch() noexcept { return nullptr; }
  /// Its tickets are transfers: one stays in flight at the deadline, and can be abandoned.
  virtual bool is_transfer() const noexcept { return false; }
  /// As WireTickets::abandon. A collective continues, except after a rank's death or an abort.
  virtual void abandon(Ticket) noexcept {}
  /// Waits until the puts among its tickets are visible at their targets.
  virtual base::Status complete() noexcept { return {}; }
};

/// The wires and sources of a rank. A ticket belongs to an issuer: wires have the indices 0, 1, ... in the order of
/// add_wire; sources have negative indices. Wires and sources outlive their tickets. One thread at a time.
class Tickets {
 public:
  explicit Tickets(base::Waiter& waiter) noexcept : waiter_(waiter) {}
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  void add_wire(WireTickets& wire) { wires_.push_back(&wire); }
  /// Returns the source's index. Throws std::bad_alloc.
  int add(TicketSource& source);
  void remove(int index) noexcept { sources_[static_cast<std::size_t>(-1 - index)] = nullptr; }
  /// Null if the index is a wire's.
  TicketSource* source(int index) const noexcept {
    return index < 0 ? sources_[static_cast<std::size_t>(-1 - index)] : nullptr;
  }

  /// If the ticket is in progress, drives its wire once and tests again.
  base::Status test(int index, Ticket ticket) const noexcept;
  void abandon(int index, Ticket ticket) const noexcept;
  /// Waits for a ticket and returns its outcome. At peer_failed and aborted it abandons the ticket; at a timeout the
  /// operation stays in flight.
  base::Status await(int index, Ticket ticket, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept;
  /// As await, but also abandons the ticket at a timeout: the caller may reuse its memory when this returns.
  base::Status finish(int index, Ticket ticket, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept {
    if (ticket == done) return {};
    const base::Status status = await(index, ticket, note, timeout);
    if (status.code == Code::timeout) abandon(index, ticket);
    return status;
  }

  void drive_wires() const noexcept {
    for (WireTickets* const wire : wires_) wire->progress();
  }
  /// The sum over all sources.
  std::uint64_t moves() const noexcept;
  /// Completes the tickets of all sources, as TicketSource::complete. Returns the first failure.
  base::Status complete_sources() const noexcept;
  /// The source with a mismatch that ends a wait for `world_rank`. Null if none.
  TicketSource* unheard_mismatch(int world_rank) const noexcept;
  /// As TicketSource::is_closing, of any source.
  bool is_closing(int world_rank) const noexcept;

 private:
  base::Waiter& waiter_;
  std::vector<WireTickets*> wires_;
  std::vector<TicketSource*> sources_;  // null: a free index
};

}  // namespace hmc::progress
