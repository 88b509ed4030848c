// What a collective was called with, as far as a schedule depends on it.
#pragma once

#include <cstdint>
#include <span>

#include <hmc/types.hpp>

namespace hmc::collectives::schedule {

enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  allreduce,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
};
inline constexpr int collective_count = 11;
const char* name_of(Collective collective) noexcept;
/// Whether it combines contributions (and so has an operation).
bool reduces(Collective collective) noexcept;
/// One count for all ranks' blocks, and not one vector. The pieces of a large call are v-forms then.
bool has_blocks(Collective collective) noexcept;

/// The team: `size` ranks, `per_node` consecutive ones on each node (the last node may have fewer).
struct Shape {
  int size = 1;
  int per_node = 1;

  int node_of(int rank) const { return rank / per_node; }
  int nodes() const { return (size + per_node - 1) / per_node; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The same on every rank, but for the counts of alltoallv, which are the caller's own.
///
/// Counts are elements. `count` is one rank's block in gather, scatter, allgather, alltoall and
/// reduce_scatter, and the whole vector in the others. A v-form gives a count per rank instead
/// (`counts`, not empty), which the caller keeps alive; block r then begins at displacements[r] of the
/// larger buffer, or right after block r-1 where no displacements are given.
/// alltoallv: counts[r] go to r, receive_counts[r] come from r, and `largest` is the largest count that
/// any pair of the team exchanges (agreed by all before).
///
/// In place, the two buffers overlap as MPI says. allgather: the input is the caller's own block of the output.
/// gather, at the root: the same. scatter, at the root: the output is its own block of the input. broadcast, reduce:
/// the root's input and output begin at one address. The others: input and output begin at one address.
struct Call {
  Collective collective = Collective::barrier;
  DType type = DType::u8;
  Op op = Op::sum;
  std::uint32_t element_bytes = 1;
  bool commutative = true;
  bool deterministic = false;  ///< the result's bits depend on nothing but contributions and team size
  bool in_place = false;
  int root = 0;
  std::uint64_t count = 0;
  std::span<const std::uint64_t> counts{};
  std::span<const std::uint64_t> displacements{};
  std::span<const std::uint64_t> receive_counts{};
  std::span<const std::uint64_t> receive_displacements{};
  std::uint64_t largest = 0;
  std::uint64_t segment_bytes = 0;  ///< of pipelines; 0: the algorithm's own
  int radix = 0;                    ///< of k-nomial algorithms; 0: the algorithm's own

  bool irregular() const { return !counts.empty(); }
};

/// How large the caller's buffers are, displacements and all.
std::uint64_t input_bytes(const Shape& shape, const Call& call, int rank);
std::uint64_t output_bytes(const Shape& shape, const Call& call, int rank);

}  // namespace hmc::collectives::schedule
