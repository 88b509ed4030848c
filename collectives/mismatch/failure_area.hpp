// FailureArea: the part of a team's arena for failure reports and for the questions of long waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/mismatch/failure_summary.hpp"
#include "collectives/mismatch/history.hpp"
#include "collectives/mismatch/relay.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::collectives {

/// Each rank's part holds:
/// - the alarm word, at the start of the arena;
/// - the rank's ledger and, from `begin` on, its report; ranks of the node read both in place;
/// - the questions to this rank;
/// - one slot per summary that Relay may send to this rank. None if all ranks have load/store access to each other,
///   because each rank then reads all reports. So the size is O(log N) or constant.
class FailureArea {
 public:
  FailureArea(std::uint64_t ledger_at, std::uint64_t begin, int size, bool all_direct) noexcept
      : report_at_(begin),
        ledger_at_(ledger_at),
        questions_at_(round_up(report_at_ + sizeof(FailureReport))),
        summaries_at_(round_up(questions_at_ + std::uint64_t{16} * askers(size))),
        slots_(all_direct ? 0 : Relay::slots(size)) {}
  /// The offset after the area.
  std::uint64_t end() const noexcept { return summaries_at_ + static_cast<std::uint64_t>(slots_) * slot_bytes; }

  // ---- the alarm: the team has failed. Any rank may write it.
  static constexpr std::uint64_t alarm_offset = 0;
  struct Alarm {
    int rank = -1;           ///< the first rank that failed
    std::uint64_t call = 0;  ///< the number of its failed call
    std::uint64_t word() const noexcept { return call << alarm_rank_bits | static_cast<std::uint64_t>(rank + 1); }
    static Alarm of(std::uint64_t word) noexcept {
      return {static_cast<int>(word & ((std::uint64_t{1} << alarm_rank_bits) - 1)) - 1, word >> alarm_rank_bits};
    }
  };

  // ---- reports and ledgers
  FailureReport& report(std::byte* part) const noexcept { return *reinterpret_cast<FailureReport*>(part + report_at_); }
  /// Another rank's report; null if it has none, or without load/store access to that rank.
  const FailureReport* report_of(const rma::WindowCore& window, int rank) const noexcept {
    std::byte* const direct = window.peers()[static_cast<std::size_t>(rank)].direct;
    if (direct == nullptr) return nullptr;
    FailureReport& there = report(direct);
    // Acquire: pairs with the release in TeamFailure::publish; the other fields are visible.
    return std::atomic_ref(there.valid).load(std::memory_order_acquire) != 0 ? &there : nullptr;
  }
  Ledger& ledger(std::byte* part) const noexcept { return *reinterpret_cast<Ledger*>(part + ledger_at_); }
  /// Another rank's ledger; null without load/store access to that rank.
  Ledger* ledger_of(const rma::WindowCore& window, int rank) const noexcept {
    std::byte* const direct = window.peers()[static_cast<std::size_t>(rank)].direct;
    return direct != nullptr ? &ledger(direct) : nullptr;
  }

  // ---- questions: number and history of the call in which the sender waits for the owner of the memory
  /// A sender has one slot for its non-blocking calls and one for its blocking call. In a team of more than most_askers
  /// ranks, ranks with the same remainder share a slot. There a long wait repeats its question.
  static constexpr std::uint32_t askers(int size) noexcept {
    return static_cast<std::uint32_t>(std::min(size, most_askers));
  }
  static constexpr int kinds_of_questions = 2;
  static constexpr int most_askers = 64;
  struct Question {
    std::uint64_t call = 0;
    std::uint64_t tag = 0;  ///< the upper bits of the history's word
    int rank = -1;          ///< the sender
    std::uint64_t word() const noexcept {
      return call << (tag_bits + rank_bits) | tag << rank_bits |
             (static_cast<std::uint64_t>(rank) & ((std::uint64_t{1} << rank_bits) - 1));
    }
    /// `calls`: number of calls that this rank has made. The sender's number differs by less than 2^23.
    static Question of(std::uint64_t word, std::uint64_t calls) noexcept {
      const auto ahead =
          static_cast<std::int64_t>((word >> (tag_bits + rank_bits)) - calls) << (64 - call_bits) >> (64 - call_bits);
      return {calls + static_cast<std::uint64_t>(ahead), word >> rank_bits & ((std::uint64_t{1} << tag_bits) - 1),
              static_cast<int>(word & ((std::uint64_t{1} << rank_bits) - 1))};
    }
    static constexpr std::uint64_t tag_of(std::uint64_t history) noexcept { return history >> (64 - tag_bits); }
    static constexpr unsigned call_bits = 24, tag_bits = 20, rank_bits = 20;
  };
  std::uint64_t question_offset(std::uint32_t asker, int which) const noexcept {
    return questions_at_ + (std::uint64_t{asker} * kinds_of_questions + static_cast<std::uint64_t>(which)) * 8;
  }

  // ---- summaries
  int slots() const noexcept { return slots_; }
  /// The signal word of a slot; its summary follows.
  std::uint64_t slot_offset(int slot) const noexcept {
    return summaries_at_ + static_cast<std::uint64_t>(slot) * slot_bytes;
  }
  static constexpr std::uint64_t summary_in_slot = 8;

 private:
  static constexpr unsigned alarm_rank_bits = 24;
  static constexpr std::uint64_t slot_bytes = (summary_in_slot + sizeof(FailureSummary) + 63) / 64 * 64;
  static constexpr std::uint64_t round_up(std::uint64_t offset) noexcept { return (offset + 63) / 64 * 64; }

  std::uint64_t report_at_;
  std::uint64_t ledger_at_;
  std::uint64_t questions_at_;
  std::uint64_t summaries_at_;
  int slots_;
};

}  // namespace hmc::collectives
