// Tickets: the operations in flight of one rank, and the waits for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.hpp"
#include "runtime/base/wait.hpp"

namespace hmc::progress {

/// Identifies an operation in flight. `done` (0) means a completed operation. A ticket stays valid until test() reports
/// completion or failure, or until abandon().
using Ticket = std::uint64_t;
inline constexpr Ticket done = 0;

/// The tickets of a wire. A wait for one must call the wire's progress().
class WireTickets : public base::Progress {
 public:
  /// Returns in_progress, ok, or the failure. Makes no progress: the caller calls progress().
  virtual base::Status test(Ticket ticket) noexcept = 0;
  /// Cancels a transfer. On return the wire neither writes its destination nor reads its source, and the ticket is
  /// invalid. The target may have executed a part of it. Other transfers continue. If the peer accepts no data, the
  /// connection may be closed. May block for up to one second. Does nothing to a completed transfer.
  virtual void abandon(Ticket ticket) noexcept = 0;
};

/// Issues tickets, like a wire, for operations without a wire: a team's non-blocking collectives, and transfers by
/// devices.
class TicketSource {
 public:
  virtual ~TicketSource() = default;
  /// Progresses the operation. Returns ok, in_progress, or its failure.
  virtual base::Status test(Ticket ticket) noexcept = 0;
  /// Called when a wait for `ticket` reached the job's timeout without a step. All tickets of this source fail.
  virtual void expired(Ticket ticket) noexcept = 0;
  /// Increases with every step. Each increase restarts the job's timeout, so a large call may take longer than the
  /// timeout.
  virtual std::uint64_t moves() const noexcept = 0;
  [[noreturn]] virtual void throw_failure(const base::Status& status, const char* operation) = 0;
  /// True if the source is a team that ended with a mismatch in which `world_rank` aborted, and no call has reported
  /// that to this rank's user yet.
  virtual bool has_unreported_mismatch(int /*world_rank*/) noexcept { return false; }
  /// True if the source is the world and the last call of `world_rank` that this rank can see is Runtime::close.
  virtual bool is_closing(int /*world_rank*/) noexcept { return false; }
  /// Observes long waits for its tickets. May be null.
  virtual base::Watch* watch() noexcept { return nullptr; }
  /// True if its tickets are transfers: at the timeout a transfer stays in flight, and can be abandoned.
  virtual bool is_transfer() const noexcept { return false; }
  /// As WireTickets::abandon. A collective continues, except after a rank's death or an abort.
  virtual void abandon(Ticket) noexcept {}
  /// The request of `ticket` was destroyed. If the operation is in flight, and its buffers may end with the request,
  /// the job ends. Never waits for another rank.
  virtual void dropped(Ticket, const char* /*call*/) noexcept {}
  /// A clause for the error of a wait that reached its timeout. Empty: none.
  virtual std::string text_at_timeout() { return {}; }
  /// Waits until the puts among its tickets are visible at their targets.
  virtual base::Status complete() noexcept { return {}; }
};

/// The wires and sources of a rank, which issue tickets. Wires have the indices 0, 1, ... in the order of add_wire;
/// sources have negative indices. Wires and sources outlive their tickets. One thread at a time.
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

  /// If the ticket is in progress, calls its wire's progress() once and tests again.
  base::Status test(int index, Ticket ticket) const noexcept;
  void abandon(int index, Ticket ticket) const noexcept;
  /// Waits for a ticket and returns its outcome. At peer_failed and aborted it abandons the ticket; at a timeout the
  /// operation stays in flight.
  base::Status await(int index, Ticket ticket, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept;
  /// As await, but also abandons the ticket at a timeout, so the caller may reuse its memory after the return.
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
  /// The first source for which has_unreported_mismatch(world_rank) is true: it ends a wait for that rank. Null if
  /// there is none.
  TicketSource* unheard_mismatch(int world_rank) const noexcept;
  /// True if TicketSource::is_closing is true for any source.
  bool is_closing(int world_rank) const noexcept;

 private:
  base::Waiter& waiter_;
  std::vector<WireTickets*> wires_;
  std::vector<TicketSource*> sources_;  // null: a free index
};

}  // namespace hmc::progress
