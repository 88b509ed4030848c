// History: the calls that this rank has made on a team.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "collectives/args/signature.hpp"
#include "collectives/mismatch/ledger.hpp"

namespace hmc::collectives {

/// Numbers the calls from 1 and keeps one word, a hash of all calls in order. Ranks that made the same calls have the
/// same word. Ranks compare it in the arrival lines of collectives by load and store, in the stamps of schedules'
/// messages, and in the questions of long waits.
///
/// It keeps the last calls: some hundred, plus as many as are in flight. No other rank can be stuck in an older one,
/// because guards (see Numbering) and boards (their slots) limit how far a rank can be ahead of others.
///
/// Threads: the owner; and the Runtime's background thread while `shared` is set, under that lock.
class History {
 public:
  void add(Signature signature) noexcept {
    word_ = (word_ ^ signature.word()) * 0x9e3779b97f4a7c15U;
    word_ ^= word_ >> 32;
    ++calls_;
    entries_[calls_ & (entries_.size() - 1)] = {signature, word_};
    ledger_->add(calls_, signature);
    ranks_calls_->store(ranks_calls_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Counts the calls of all teams of this rank, in its line of the node page.
  void count_in(std::atomic<std::uint64_t>& ranks_calls) noexcept { ranks_calls_ = &ranks_calls; }
  /// Publishes the calls in this ledger from now on; null: in none.
  void show_in(Ledger* ledger) noexcept { ledger_ = ledger != nullptr ? ledger : &nobodys_; }
  /// Called by the owner, without the lock. Returns the word up to this call.
  std::uint64_t add_alone(Signature signature) noexcept {
    if (shared != nullptr) [[unlikely]] {
      const std::lock_guard guard(*shared);
      add(signature);
    } else {
      add(signature);
    }
    return word_;
  }
  /// Keeps enough entries for this many calls in flight.
  void make_room(std::size_t under_way) noexcept {
    if (under_way + remembered <= entries_.size()) [[likely]]
      return;
    try {
      std::vector<Entry> more(2 * entries_.size());
      for (std::uint64_t call = calls_; has(call); --call) more[call & (more.size() - 1)] = entry(call);
      entries_.swap(more);
    } catch (const std::bad_alloc&) {
      // Then fewer calls are kept, and a mismatch in an old call may be reported only at the deadline.
    }
  }
  /// The latest call's number, and the word up to it.
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t word() const noexcept { return word_; }

  bool has(std::uint64_t call) const noexcept { return call != 0 && call <= calls_ && calls_ - call < entries_.size(); }
  /// Requires has(call).
  Signature signature_of(std::uint64_t call) const noexcept { return entry(call).signature; }
  std::uint64_t word_of(std::uint64_t call) const noexcept { return entry(call).word; }

  /// The team has failed: no collective of any form begins. Relaxed: a rank that reads it too late begins a call and
  /// gets the failure there.
  std::atomic<bool> is_over{false};
  /// Set by the owner while operations are in flight that the background thread may step.
  std::mutex* shared = nullptr;

 private:
  static constexpr std::size_t remembered = 256;
  struct Entry {
    Signature signature;
    std::uint64_t word = 0;
  };
  const Entry& entry(std::uint64_t call) const noexcept { return entries_[call & (entries_.size() - 1)]; }

  std::uint64_t calls_ = 0;
  std::uint64_t word_ = 0;
  std::vector<Entry> entries_ = std::vector<Entry>(2 * remembered);  // a power of two
  Ledger nobodys_;
  Ledger* ledger_ = &nobodys_;
  std::atomic<std::uint64_t> nobodys_calls_{0};
  std::atomic<std::uint64_t>* ranks_calls_ = &nobodys_calls_;
};

}  // namespace hmc::collectives
