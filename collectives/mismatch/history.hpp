// History: the calls that this rank has made on a team. Ledger: the last of them, readable by the ranks of its node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// A rank that waits for no peer in a call, and computes afterwards, answers no questions. Ranks that have failed in
/// such a call read that rank's last calls here, in its part of the team's arena. One writer. All zeros: empty.
class Ledger {
 public:
  static constexpr std::uint64_t kept = 64;

  void add(std::uint64_t call, Signature signature) noexcept {
    // Both releases pair with the acquires in signature_of(). A thread that loads the signature also sees the previous
    // call's number, so it detects a reused entry. A thread that loads the number also sees the signature.
    std::atomic_ref(signatures_[call % kept]).store(signature.word(), std::memory_order_release);
    std::atomic_ref(calls_).store(call, std::memory_order_release);
  }

  /// Returns an empty signature if the call wasn't made or its entry was reused.
  Signature signature_of(std::uint64_t call) noexcept {
    if (call > calls()) return {};
    const Signature signature(std::atomic_ref(signatures_[call % kept]).load(std::memory_order_acquire));
    return call + kept > calls() + 1 ? signature : Signature();  // add() may be reusing the next call's entry
  }
  std::uint64_t calls() noexcept { return std::atomic_ref(calls_).load(std::memory_order_acquire); }

 private:
  alignas(64) std::uint64_t calls_ = 0;
  std::uint64_t signatures_[kept] = {};
};

/// Numbers the calls from 1. Stores one word, a hash of all calls in order: ranks that made the same calls have the
/// same word. Ranks compare it in arrival lines (node engine), in the stamps of messages (network engine), and in the
/// questions of long waits. The start of a plan adds two entries: the plan's number and its collective.
///
/// Stores some hundred of the last calls, plus the number of calls in flight. No other rank can wait in an older call,
/// because the guards (see Numbering) and the slots of boards limit how far a rank can be ahead of the others.
///
/// Threads: one at a time. ScheduleTeam holds its lock during calls.
class History {
 public:
  void add(Signature signature) noexcept {
    append(signature);
    ranks_calls_->store(ranks_calls_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void add_plan(Signature start, Signature collective) noexcept {
    append(start);
    add(collective);
  }
  /// Sets the counter of this rank's calls on all teams, in its line of the node page.
  void count_in(std::atomic<std::uint64_t>& ranks_calls) noexcept { ranks_calls_ = &ranks_calls; }
  /// Publishes later calls in this ledger; null: in none.
  void show_in(Ledger* ledger) noexcept { ledger_ = ledger != nullptr ? ledger : &nobodys_; }
  /// Keeps enough entries for this many calls in flight. Each may be a plan's.
  void make_room(std::size_t under_way) noexcept {
    if (2 * under_way + remembered <= entries_.size()) [[likely]]
      return;
    try {
      std::vector<Entry> more(2 * entries_.size());
      for (std::uint64_t call = calls_; has(call); --call) more[call & (more.size() - 1)] = entry(call);
      entries_.swap(more);
    } catch (const std::bad_alloc&) {
      // Keep fewer calls. A mismatch in an old call may then be reported only at the deadline.
    }
  }
  /// The latest call's number, and the word up to it.
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t word() const noexcept { return word_; }

  bool has(std::uint64_t call) const noexcept { return call != 0 && call <= calls_ && calls_ - call < entries_.size(); }
  /// Requires has(call).
  Signature signature_of(std::uint64_t call) const noexcept { return entry(call).signature; }
  std::uint64_t word_of(std::uint64_t call) const noexcept { return entry(call).word; }

  /// The team has failed: no further collective may begin. Relaxed: if a thread reads the old value, it begins a call
  /// and gets the failure there.
  std::atomic<bool> is_over{false};

 private:
  void append(Signature signature) noexcept {
    word_ = (word_ ^ signature.word()) * 0x9e3779b97f4a7c15U;
    word_ ^= word_ >> 32;
    ++calls_;
    entries_[calls_ & (entries_.size() - 1)] = {signature, word_};
    ledger_->add(calls_, signature);
  }
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
