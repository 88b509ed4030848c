// Checks that the counts of an alltoallv match: for every pair, rank r sends to rank s as many elements as s expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hmc/error.hpp>
#include <hmc/types.hpp>

#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// A summary of one rank's counts. An allreduce combines the summaries of all ranks before data moves. Has the size of
/// one Located<int64_t>. alltoallv needs this allreduce anyway, for `largest`.
struct CountsOf {
  std::uint64_t largest = 0;  ///< largest count of any pair; determines the length of the pieces
  /// The sum of a hash of (from, to, count) over the pairs that this rank sends to, minus the same sum over the pairs
  /// that it receives from. Over all ranks each pair is added once and subtracted once. So the sum is 0 if the counts
  /// match; if they don't, it is 0 with probability 2^-64.
  std::uint64_t balance = 0;
};
static_assert(sizeof(CountsOf) == sizeof(Located<std::int64_t>));

CountsOf counts_of(int rank, std::span<const std::size_t> sent, std::span<const std::size_t> received) noexcept;
/// ReduceFunction for CountsOf; commutative.
void combine_counts(void* accumulated, const void* next, std::size_t count, DType type, void* context);

/// As CountsOf, for a call in which the callers pass the largest count of any pair.
struct StartedCounts {
  CountsOf counts;
  std::uint64_t least_largest = 0, most_largest = 0;  ///< passed by a rank
  std::uint64_t least_turns = 0, most_turns = 0;      ///< which the ranks have reserved by it
  bool largest_is_right() const noexcept { return least_largest == most_largest && counts.largest <= most_largest; }
};
/// ReduceFunction for StartedCounts; commutative.
void combine_started_counts(void* accumulated, const void* next, std::size_t count, DType type, void* context);
/// The error names what the ranks passed, and the largest count.
Error wrong_largest_error(const rma::TeamCore& team, const char* operation, const StartedCounts& all);

/// Mismatched pairs: the number of receivers with a mismatched pair, and the first such pair of each of the lowest
/// receivers. The size is constant, so it fits any team's scratch. Plain data.
struct CountMismatch {
  static constexpr std::size_t most_pairs = 4;
  struct Pair {
    std::uint64_t to = 0, from = 0, sent = 0, expected = 0;
  };
  std::uint64_t receivers = 0;
  Pair pairs[most_pairs] = {};  ///< in order of receivers
};
/// This rank's first mismatched pair. `sent`: the counts that each rank sends to this rank.
CountMismatch first_count_mismatch(int rank, std::span<const std::size_t> sent,
                                   std::span<const std::size_t> received) noexcept;
/// Merges the mismatched pairs of all ranks.
CountMismatch merged(std::span<const CountMismatch> of_each) noexcept;
/// ReduceFunction for CountMismatch; commutative.
void combine_count_mismatches(void* accumulated, const void* next, std::size_t count, DType type, void* context);
/// The error names the pairs, by world ranks, and both counts.
Error count_mismatch_error(const rma::TeamCore& team, const char* operation, const CountMismatch& all,
                           const CountMismatch& mine);

}  // namespace hmc::collectives
