// History: what this rank has called on a team.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "collectives/args/signature.hpp"
#include "collectives/execute/ledger.hpp"

namespace hmc::collectives {

/// Numbers the calls (from 1 on) and keeps one word that is made of all of them in order. Ranks that have called the
/// same have the same word, so it is what they compare: in the arrival lines of collectives by load and store, in the
/// stamps of schedules' messages, and in the questions of those that wait for long.
///
/// It remembers the last calls: some hundred, and as many more as are under way. Another rank can be stuck in no older
/// one: all that this rank has finished lie among the few before the oldest that is under way, since guards (see
/// Numbering) and boards (their turns) let nobody finish calls that are more than that ahead of somebody's.
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
  /// Of all teams of this rank, in its line of the node's page.
  void count_in(std::atomic<std::uint64_t>& ranks_calls) noexcept { ranks_calls_ = &ranks_calls; }
  /// From now on others find the calls there; null: nowhere.
  void show_in(Ledger* ledger) noexcept { ledger_ = ledger != nullptr ? ledger : &nobodys_; }
  /// By the owner, without the lock. Returns the word up to it.
  std::uint64_t add_alone(Signature signature) noexcept {
    if (shared != nullptr) [[unlikely]] {
      const std::lock_guard guard(*shared);
      add(signature);
    } else {
      add(signature);
    }
    return word_;
  }
  /// So many calls are under way.
  void make_room(std::size_t under_way) noexcept {
    if (under_way + remembered <= entries_.size()) [[likely]]
      return;
    try {
      std::vector<Entry> more(2 * entries_.size());
      for (std::uint64_t call = calls_; has(call); --call) more[call & (more.size() - 1)] = entry(call);
      entries_.swap(more);
    } catch (const std::bad_alloc&) {
      // Then it remembers less, and a mismatch in an old call may be told at the deadline only.
    }
  }
  /// The latest call's number, and the word up to it.
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t word() const noexcept { return word_; }

  bool has(std::uint64_t call) const noexcept { return call != 0 && call <= calls_ && calls_ - call < entries_.size(); }
  /// Of a call that it has.
  Signature signature_of(std::uint64_t call) const noexcept { return entry(call).signature; }
  std::uint64_t word_of(std::uint64_t call) const noexcept { return entry(call).word; }

  /// The team has failed, in whatever form of collective: none is begun any more. Relaxed: who reads it too late
  /// begins one, and learns of it there.
  std::atomic<bool> is_over{false};
  /// Set by the owner while something is under way that the background thread may step.
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
