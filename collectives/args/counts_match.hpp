// Whether the counts of an alltoallv match: what r sends to s is what s expects from r, for every pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hmc/team.hpp>

namespace hmc::collectives {

/// What one rank knows of an alltoallv, and, combined over all ranks, what all must know before it begins. Rides as one
/// Located<int64_t> in a small allreduce, which alltoallv needs anyway.
struct CountsOf {
  std::uint64_t largest = 0;  ///< of any pair: how the call is cut depends on it
  /// The sum, over the pairs that a rank sends to, of a hash of (from, to, count), less the same over the pairs that it
  /// gets from. Over all ranks each pair is there once each way: 0 if they match, and if they don't but for one chance
  /// in 2^64.
  std::uint64_t balance = 0;
};
static_assert(sizeof(CountsOf) == sizeof(Located<std::int64_t>));

CountsOf counts_of(int rank, Team::Counts sent, Team::Counts received) noexcept;
/// The ReduceFunction for it; commutes.
void combine_counts(void* accumulated, const void* next, std::size_t count, DType type, void* context);

/// The pairs that don't match: the first one of each receiver. How many receivers have one, and the lowest of them:
/// of one size however many ranks there are, so that it fits into any team's scratch. Plain data.
struct Uneven {
  static constexpr std::size_t told = 4;
  struct Pair {
    std::uint64_t to = 0, from = 0, sent = 0, expected = 0;
  };
  std::uint64_t receivers = 0;
  Pair pairs[told] = {};  ///< by receiver
};
/// This rank's. `told`: what each rank says that it sends to me.
Uneven first_uneven(int rank, Team::Counts told, Team::Counts received) noexcept;
/// The ReduceFunction for it; commutes.
void combine_uneven(void* accumulated, const void* next, std::size_t count, DType type, void* context);
/// Names the pairs, by their world ranks, and both counts.
Error uneven_error(const window::TeamCore& team, const char* operation, const Uneven& all, const Uneven& mine);

/// They don't: collective over the team, on which nothing has been moved yet. Each rank compares its own pairs, all
/// hear of all, and throw Error{mismatch} that names the pairs and both counts. The team goes on.
[[noreturn]] void throw_uneven(Team& team, Team::Counts sent, Team::Counts received);

}  // namespace hmc::collectives
