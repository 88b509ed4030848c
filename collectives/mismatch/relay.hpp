// Relay: propagates failure reports over a team, with O(log N) messages per rank.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/mismatch/failure_summary.hpp"

namespace hmc::collectives {

/// A rank sends to its partners, the ranks at the distances 2^k above it on the ring of ranks. There are several paths
/// between two ranks, so ranks that are dead or computing don't stop the propagation.
///
/// - Alarm: a rank that fails, or that gets an alarm, sends one to all partners, once.
/// - Pass 0: a rank sends its summary to the partner at distance 2^k as soon as the summary contains the 2^k ranks up
///   to this rank. If all ranks report, every summary is complete after ceil(log2 N) messages per rank.
/// - Passes 1 to 3: at fixed times after its failure, a rank sends the summary to all partners, because some ranks may
///   not relay. It skips a pass if the summary hasn't changed. A rank with a complete summary throws its error, usually
///   before these passes.
///
/// So a rank sends at most partners() alarms and slots() summaries. Each summary has its own slot at the target, which
/// is written once. This class sends nothing itself: the owner transfers the messages. One thread.
class Relay {
 public:
  static constexpr int passes = 4;
  /// ceil(log2 size)
  static int partners(int size) noexcept;
  static int partner(int rank, int size, int k) noexcept {
    return static_cast<int>((rank + (std::int64_t{1} << k)) % size);
  }
  static int slots(int size) noexcept { return passes * partners(size); }

  /// Called when this rank fails. May throw bad_alloc; then this rank relays nothing.
  void begin(int rank, int size, const FailureSummary& own, std::int64_t now);
  bool has_begun() const noexcept { return !has_report_.empty(); }
  /// The report of one other rank.
  void add(int rank, const FailureSummary& report) noexcept;
  /// The calls of a rank that has sent no report.
  void add_read(const FailureSummary& calls) noexcept { summary_.merge(calls); }
  /// Merges a summary that a partner has sent. Ignores an invalid one.
  void take(const FailureSummary& received) noexcept;

  struct Message {
    int peer = -1;
    int slot = 0;
  };
  /// Sets the next message: the owner sends summary() to this slot of the peer. False if no message is due at `now`.
  bool next(std::int64_t now, Message& message) noexcept;

  const FailureSummary& summary() const noexcept { return summary_; }
  bool has_report_of(int rank) const noexcept { return has_begun() && has_report_[static_cast<std::size_t>(rank)]; }
  /// All ranks have reported, except for `excused` (-1: none).
  bool is_complete(int excused = -1) const noexcept {
    return missing_ == 0 || (missing_ == 1 && excused >= 0 && !has_report_of(excused));
  }
  /// The lowest rank without a report; -1: none.
  int first_missing() const noexcept;
  /// True if this rank may still receive or send a useful summary.
  bool is_active(std::int64_t now) const noexcept { return has_begun() && missing_ > 0 && now - begun_at_ < active_ns; }
  /// The time for which a rank waits for other ranks' reports before it throws its error.
  static constexpr std::int64_t active_ns = 1'000'000'000;

 private:
  void count(int rank) noexcept;
  int at(std::uint32_t distance_below) const noexcept;
  void describe_coverage() noexcept;

  int rank_ = 0;
  int size_ = 0;
  int missing_ = 0;
  std::uint32_t behind_ = 0;  // this rank has the reports of all ranks at distances [0, behind_) below it
  int sent_ = 0;              // messages of pass 0
  int pass_ = 1;              // the next pass, and its messages sent so far
  int sent_of_pass_ = 0;
  bool has_news_ = true;  // since the last pass
  std::int64_t begun_at_ = 0;
  FailureSummary summary_;
  std::vector<bool> has_report_;  // allocated at the failure
};

}  // namespace hmc::collectives
