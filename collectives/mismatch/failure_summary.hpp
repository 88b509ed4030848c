// FailureReport: the record in which a rank publishes its failure. FailureSummary: the reports of many ranks, in a size
// that doesn't depend on their number.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// The cause of the failure, and the last calls up to the failed call and after it. Plain data, written once, in the
/// rank's own part of the team's arena. Ranks of the node read it there if `valid` is 1. Other ranks get it in
/// summaries.
struct FailureReport {
  static constexpr int most_calls = 56;
  /// Number of reported calls before the failed call. A rank that waits for no peer may be ahead of the others by the
  /// number of board slots plus the number of areas, in which the start of a plan counts twice.
  static constexpr std::uint64_t before = 51;

  std::uint64_t valid = 0;  ///< 1: the other fields are written. Stored last, with release
  std::uint64_t code = 0;
  std::uint64_t peer = 0;                     ///< world rank that was awaited, or that sent a mismatched message
  std::uint64_t call = 0;                     ///< number of the call that failed here, or of the alarm's call
  std::uint64_t calls = 0;                    ///< number of calls made, at most `call`
  std::uint64_t first = 1;                    ///< number of the first reported call
  std::uint64_t signatures[most_calls] = {};  ///< 0: not reported, or not called
};

/// A rank's part in the failed call.
struct PeerReport {
  enum class Part {
    called,     ///< made the call in `signature`
    absent,     ///< hasn't made the call yet
    otherwise,  ///< made a different call, according to its message; sent no report
    unlisted,   ///< sent a report, but its call exceeded the summaries' size
    silent,     ///< sent no report
  };
  Part part = Part::silent;
  Signature signature;
  friend bool operator==(const PeerReport&, const PeerReport&) = default;
};

/// Ranks with equal calls form a group. A group lists its lowest ranks. merge() is commutative and idempotent, so a
/// report may arrive over several paths. Plain data: ranks send the object as bytes.
class FailureSummary {
 public:
  static constexpr std::size_t most_groups = 8;
  static constexpr std::size_t most_ranks = 16;
  static constexpr std::size_t most_accused = 8;

  FailureSummary() = default;
  /// `was_read`: `report` was built from the ledger of a rank that has published no report.
  FailureSummary(int rank, const FailureReport& report, bool was_read) noexcept;

  void merge(const FailureSummary& other) noexcept;
  /// Groups the ranks by their parts in this call. Discards later calls.
  void resolve(std::uint64_t call) noexcept;

  /// The first call in which ranks differ; 0: none is known.
  std::uint64_t conflict() const noexcept { return conflict_; }
  /// The lowest rank that detected a mismatch, and the number of the mismatched call; -1: none.
  int witness() const noexcept { return witness_ - 1; }
  std::uint64_t witness_call() const noexcept { return witness_call_; }
  /// The lowest rank with a failure other than a timeout or mismatch; -1: none.
  int cause() const noexcept { return cause_ - 1; }
  Code cause_code() const noexcept { return static_cast<Code>(cause_code_); }
  /// The lowest rank whose call at the conflict is known and isn't `mine`; -1: none.
  int differing_from(Signature mine) const noexcept;
  /// The part of `rank`, `world_rank`, in the call of the last resolve(). `has_reported`: its report is in the summary,
  /// even if the rank isn't listed.
  PeerReport part_of(int rank, int world_rank, bool has_reported) const noexcept;
  /// False if a field is out of range for a team of this size.
  bool is_sound(int team_size) const noexcept;

  /// The ranks whose reports the summary contains: `covered` ranks, starting at `from` and descending around the ring
  /// of ranks, except for the distances [begin, end) of each gap. Relay sets these fields.
  static constexpr std::size_t most_gaps = 16;
  struct Gap {
    std::uint32_t begin = 0, end = 0;
  };
  std::uint32_t from = 0;
  std::uint32_t covered = 0;
  std::uint32_t gap_count = 0;
  Gap gaps[most_gaps] = {};

 private:
  struct Group {
    std::uint64_t calls = 0;      // number of calls made; at the call of the conflict or past it: its number
    std::uint64_t signature = 0;  // at the conflict; 0: not called, or not known
    std::uint32_t count = 0;      // of the listed ranks
    std::uint32_t has_more = 0;
    std::uint32_t ranks[most_ranks] = {};  // in order
    bool lists(int rank) const noexcept;
    void add(const Group& other) noexcept;
  };
  std::uint64_t signature_at(std::uint64_t call) const noexcept {
    return call >= first_ && call - first_ < FailureReport::most_calls ? signatures_[call - first_] : 0;
  }
  void add(const Group& group) noexcept;

  std::uint32_t group_count_ = 0;
  std::uint32_t drops_groups_ = 0;  // there were more groups
  std::uint64_t conflict_ = 0;
  std::uint64_t first_ = 1;
  std::uint64_t signatures_[FailureReport::most_calls] = {};  // equal for all ranks before the conflict
  Group groups_[most_groups] = {};
  std::uint64_t witness_call_ = 0;
  std::int32_t witness_ = 0;  // rank + 1
  std::int32_t cause_ = 0;    // rank + 1
  std::uint64_t cause_code_ = 0;
  std::uint32_t accused_count_ = 0;
  std::uint32_t accused_[most_accused] = {};  // world ranks whose messages have shown a mismatch
};

}  // namespace hmc::collectives
