// Parts of collectives among the members of a group, shared by several algorithms. Any rank can compute the scratch and
// slots that a part needs.
#pragma once

#include "collectives/schedule/blocks.hpp"
#include "collectives/schedule/group.hpp"

namespace hmc::collectives::schedule {

// Default sizes of pipeline segments and aggregated messages.
inline constexpr std::uint64_t tree_segment = 32 << 10;
inline constexpr std::uint64_t ring_segment = 64 << 10;
inline constexpr std::uint64_t pat_message = 64 << 10;
inline constexpr std::uint64_t alltoall_cells = 4 << 20;

/// Recursive multiplying, see allreduce_recursive.cpp. Returns the place of the result, not yet scaled. Puts from
/// `from` may be in flight at the end. Writes only scratch.
Place allreduce_part(Exchange& x, Place from, std::uint64_t bytes, int radix);
ScratchSize allreduce_needs(int size, std::uint64_t bytes, int radix);

/// Rabenseifner's allreduce of `count` elements from `from` to `to`, scaled; see halving.cpp. Puts from `from` may be
/// in flight at the end.
void halving_part(Exchange& x, Place from, Place to, std::uint64_t count);
ScratchSize halving_needs(int size, std::uint64_t count, std::uint32_t element_bytes);

/// Binomial, see broadcast_binomial.cpp. Returns the place of the message.
Place broadcast_part(Exchange& x, int root, Place from, std::uint64_t bytes);
inline ScratchSize broadcast_needs(std::uint64_t bytes) { return {line_up(bytes), 1}; }

/// Bruck, see allgather_bruck.cpp. Returns the place of all blocks, in the order me, me + 1, ... (modulo size). Needs
/// scratch for all blocks and one slot per round.
Place allgather_part(Exchange& x, Place from, const Blocks& blocks);
ScratchSize allgather_needs(int size, std::uint64_t bytes);

/// Binomial, see gather_binomial.cpp. `blocks` begin at the root. At the root, returns the place of all blocks, the
/// root's own first.
Place gather_part(Exchange& x, int root, Place from, const Blocks& blocks);
/// Scratch: the blocks of this member's subtree. Slots: one per round.
ScratchSize gather_needs(int size, int me, int root, const Blocks& blocks);

/// Copies blocks from packed order (from rank blocks.first() on) to their places in the caller's buffer.
void unrotate(Builder& b, const Blocks& blocks, Place from, Place to);
/// The inverse of unrotate.
void rotate(Builder& b, const Blocks& blocks, Place from, Place to);

/// Rounds of an algorithm that doubles its distance: the smallest k with 2^k >= size.
constexpr int rounds_of(int size) {
  int rounds = 0;
  while ((std::int64_t{1} << rounds) < size) ++rounds;
  return rounds;
}

}  // namespace hmc::collectives::schedule
