// The arguments of a collective on which a schedule depends.
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
/// True if the collective combines contributions and therefore has an operation.
bool reduces(Collective collective) noexcept;
/// True if `count` is the size of one rank's block. A large call of such a collective is split into v-form calls.
bool has_blocks(Collective collective) noexcept;

/// The team: `size` ranks, with `per_node` consecutive ranks on each node (the last node may have fewer).
struct Shape {
  int size = 1;
  int per_node = 1;

  int node_of(int rank) const { return rank / per_node; }
  int nodes() const { return (size + per_node - 1) / per_node; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Equal on all ranks, except the counts of alltoallv, which each rank passes for itself. Counts are elements.
///
/// `count` is the size of one rank's block in gather, scatter, allgather, alltoall and reduce_scatter, and of the
/// whole vector in the others. A v-form passes `counts` instead, one per rank; the caller keeps them alive.
/// Block r then begins at displacements[r] of the larger buffer, or after block r-1 without displacements.
///
/// alltoallv: counts[r] elements go to rank r, receive_counts[r] come from rank r. `largest` is the largest count of
/// any pair. It is equal on all ranks.
///
/// In place, the buffers overlap as in MPI:
///  - allgather, and gather at the root: the input is the rank's own block of the output;
///  - scatter at the root: the output is the root's own block of the input;
///  - broadcast and reduce at the root, all others on every rank: input and output begin at the same address.
struct Call {
  Collective collective = Collective::barrier;
  DType type = DType::u8;
  Op op = Op::sum;
  std::uint32_t element_bytes = 1;
  bool commutative = true;
  bool deterministic = false;  ///< the result's bits depend only on the contributions and the team size
  bool in_place = false;
  int root = 0;
  std::uint64_t count = 0;
  std::span<const std::uint64_t> counts{};
  std::span<const std::uint64_t> displacements{};
  std::span<const std::uint64_t> receive_counts{};
  std::span<const std::uint64_t> receive_displacements{};
  std::uint64_t largest = 0;
  std::uint64_t segment_bytes = 0;  ///< segment size of pipelines; 0: the algorithm's default
  int radix = 0;                    ///< of k-nomial algorithms; 0: the algorithm's default

  bool irregular() const { return !counts.empty(); }
};

/// Sizes of the caller's buffers, displacements included.
std::uint64_t input_bytes(const Shape& shape, const Call& call, int rank);
std::uint64_t output_bytes(const Shape& shape, const Call& call, int rank);

}  // namespace hmc::collectives::schedule
