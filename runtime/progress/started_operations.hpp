// StartedOperations: how the operations in flight of a rank's messages, or of a team's schedules, are kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/wait.hpp"
#include "runtime/progress/background.hpp"
#include "runtime/progress/tickets.hpp"

namespace hmc::progress {

/// Keeps operations from their start to their end. The derived class has their steps, and the way in which they fail.
///
/// Slots. An operation keeps its address, and is used again. A ticket consists of the number of the slot's run (upper
/// bits) and the slot's index + 1. So an old ticket is known to be over. `Operation` has `ticket`, which this class
/// writes, and `is_under_way()`.
///
/// Progress and the lock. Without an operation in flight only the owner accesses the state, and takes no lock. A start
/// shares the state: it registers with the waiter and the progress thread. From then on the operations progress in
/// every wait of this rank, in tests of their requests and in the progress thread, and Background's lock protects the
/// state. The first test, wait or call that finds nothing in flight ends this.
///
/// Threads: the owner (one thread at a time), and the progress thread while is_shared(). Public functions take the
/// lock. Those of Started and the protected ones require it, except hold() and hold_always().
template <typename Operation> class StartedOperations : public base::Progress, public TicketSource, public Started {
 public:
  StartedOperations(const StartedOperations&) = delete;
  StartedOperations& operator=(const StartedOperations&) = delete;

  /// Called from this rank's waits.
  int progress() noexcept final {
    if (!background_.is_running()) return step(By::owner);
    const std::unique_lock guard(background_.lock(), std::try_to_lock);
    return guard.owns_lock() ? step(By::owner) : 0;  // otherwise the progress thread holds it, and makes progress
  }

  base::Status test(Ticket ticket) noexcept final {
    const Visit visit(background_, shared_, Background::Entry::asks);
    if (!visit) return base::Status::in_progress();  // the progress thread holds the lock, and a test never waits
    Operation& operation = operation_of(ticket);
    const auto over = [&]() noexcept { return operation.ticket != ticket || !operation.is_under_way(); };
    for (int look = 0; look < 2 && !over(); ++look) {
      if (!failed_by().ok()) return failed_by();
      step(By::owner);
      if (look == 0 && !over()) tickets_.drive_wires();
    }
    if (!over()) return failed_by().ok() ? base::Status::in_progress() : failed_by();
    unshare_if_idle();
    return outcome_of(operation, ticket);
  }

  /// After a death or an abort the caller gets that error and frees the buffers. Otherwise the derived class decides.
  void abandon(Ticket ticket) noexcept final {
    const auto guard = hold();
    if (has_job_failed()) return;
    if (Operation* const operation = find(ticket)) give_up(*operation);
  }

  void dropped(Ticket ticket, const char* call) noexcept final {
    const auto guard = hold();
    if (has_job_failed() || !failed_by().ok()) return;
    if (const Operation* const operation = find(ticket)) fail_all(abort_dropped(*operation, call));
  }

  // Relaxed: callers only check if the count changes. test() orders the access to the data.
  std::uint64_t moves() const noexcept final { return moves_.load(std::memory_order_relaxed); }

  /// True while operations may be in flight.
  bool is_shared() const noexcept { return shared_; }

 protected:
  using Visit = Background::Visit;
  using Waiting = Background::Waiting;
  using Entry = Background::Entry;

  /// The arguments outlive it.
  StartedOperations(base::Waiter& waiter, Tickets& tickets, Background& background) noexcept
      : waiter_(waiter), tickets_(tickets), background_(background) {}
  ~StartedOperations() override = default;
  /// Called at the end of the derived constructor: waits before it ask all sources of tickets. May throw bad_alloc.
  void enlist() { source_index_ = tickets_.add(*this); }
  /// Called by the derived destructor, before any state ends. No request uses the index afterwards: it checks first if
  /// its window is closed.
  void retire() noexcept {
    unshare();
    tickets_.remove(source_index_);
  }

  // ---- the derived class
  /// The failure that has ended all operations; ok: none.
  virtual const base::Status& failed_by() const noexcept = 0;
  virtual void fail_all(const base::Status& status) noexcept = 0;
  /// Nothing is in flight, so no other thread needs the state.
  virtual bool is_idle() const noexcept = 0;
  /// The outcome of a run that is over.
  virtual base::Status outcome_of(Operation& operation, Ticket ticket) noexcept = 0;
  /// The caller gives up an operation in flight.
  virtual void give_up(Operation&) noexcept {}
  /// The request of an operation in flight was destroyed: ends the job, and returns the error.
  virtual base::Status abort_dropped(const Operation& operation, const char* call) noexcept = 0;

  // ---- the lock
  std::unique_lock<std::mutex> hold() const noexcept {
    return shared_ ? hold_always() : std::unique_lock<std::mutex>();
  }
  /// For a call that may start to share the state.
  std::unique_lock<std::mutex> hold_always() const noexcept {
    return background_.allowed() ? std::unique_lock(background_.lock()) : std::unique_lock<std::mutex>();
  }
  /// Called before an operation starts. May throw bad_alloc.
  void share() {
    if (shared_) return;
    background_.add(*this);
    try {
      waiter_.add_progress(this);
    } catch (...) {
      background_.remove(*this);
      throw;
    }
    shared_ = true;
  }
  void unshare() noexcept {
    if (!shared_) return;
    waiter_.remove_progress(this);
    background_.remove(*this);
    shared_ = false;
  }
  void unshare_if_idle() noexcept {
    if (shared_ && is_idle()) unshare();
  }

  // ---- slots and tickets
  /// A free operation with a new ticket; `arguments` construct one if there is none. May throw bad_alloc.
  template <typename... Arguments> Operation& take(Arguments&&... arguments) {
    if (free_.empty()) {
      if (free_.capacity() <= operations_.size())
        free_.reserve(2 * operations_.size() + 1);  // so that give_back() can't fail
      operations_.push_back(std::make_unique<Operation>(std::forward<Arguments>(arguments)...));
      operations_.back()->ticket = operations_.size();
      free_.push_back(operations_.back().get());
    }
    Operation& taken = *free_.back();
    free_.pop_back();
    renew(taken);
    return taken;
  }
  /// A new ticket, for the next run of an operation that its owner has kept.
  static void renew(Operation& operation) noexcept { operation.ticket += Ticket{1} << index_bits; }
  void give_back(Operation& operation) noexcept { free_.push_back(&operation); }
  /// The operation that has, or had, this ticket.
  Operation& operation_of(Ticket ticket) const noexcept { return *operations_[index_of(ticket)]; }
  /// The operation in flight with this ticket, which may be any number; null: none.
  Operation* find(Ticket ticket) const noexcept {
    if (index_of(ticket) >= operations_.size()) return nullptr;
    Operation& found = operation_of(ticket);
    return found.ticket == ticket && found.is_under_way() ? &found : nullptr;
  }
  /// The number of operations in flight can't exceed it before another take().
  std::size_t slots() const noexcept { return operations_.size(); }
  int source_index() const noexcept { return source_index_; }

  // ---- steps
  void count_moves(std::uint64_t moves = 1) noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + moves, std::memory_order_relaxed);
  }
  /// True after a death or an abort, which ends all operations: their callers may free the buffers.
  bool has_job_failed() noexcept {
    const base::Status aborted = waiter_.page().aborted();
    if (aborted.ok()) [[likely]]
      return false;
    fail_all(aborted);
    return true;
  }

 private:
  static constexpr unsigned index_bits = 24;
  static std::size_t index_of(Ticket ticket) noexcept { return (ticket & ((Ticket{1} << index_bits) - 1)) - 1; }

  base::Waiter& waiter_;
  Tickets& tickets_;
  Background& background_;
  int source_index_ = 0;
  bool shared_ = false;                                 // written by the owner
  std::vector<std::unique_ptr<Operation>> operations_;  // by the index in their tickets
  std::vector<Operation*> free_;
  std::atomic<std::uint64_t> moves_{0};  // one writer at a time
};

}  // namespace hmc::progress
