// What several algorithms are made of: parts of a collective among the members of a group. A part's needs are the
// same for each member and known without it.
#pragma once

#include "collectives/schedule/blocks.hpp"
#include "collectives/schedule/group.hpp"

namespace hmc::collectives::schedule {

// Lengths of pipelines' segments, and of aggregated messages, where a call doesn't say.
inline constexpr std::uint64_t tree_segment = 32 << 10;
inline constexpr std::uint64_t ring_segment = 64 << 10;
inline constexpr std::uint64_t pat_message = 64 << 10;
inline constexpr std::uint64_t alltoall_cells = 4 << 20;

/// Recursive multiplying, see allreduce_recursive.cpp. Returns where the result is, not yet scaled. Reads `from`
/// by puts that may be under way at its end; writes nothing but scratch.
Place allreduce_part(Exchange& x, Place from, std::uint64_t bytes, int radix);
ScratchSize allreduce_needs(int size, std::uint64_t bytes, int radix);

/// Rabenseifner, see halving.cpp: of `count` elements at `from` to `to`, scaled. Reads `from` by puts, too.
void halving_part(Exchange& x, Place from, Place to, std::uint64_t count);
ScratchSize halving_needs(int size, std::uint64_t count, std::uint32_t element_bytes);

/// Binomial, see broadcast_binomial.cpp. Returns where the message is.
Place broadcast_part(Exchange& x, int root, Place from, std::uint64_t bytes);
inline ScratchSize broadcast_needs(std::uint64_t bytes) { return {line_up(bytes), 1}; }

/// Bruck, see allgather_bruck.cpp: block of member i has `bytes_of(i)` bytes. Returns where they are, from mine on,
/// around the end: needs as many bytes as all have, and two slots a round.
Place allgather_part(Exchange& x, Place from, const Blocks& blocks);
ScratchSize allgather_needs(int size, std::uint64_t bytes);

/// Binomial, see gather_binomial.cpp. `blocks` begin at the root. Returns where the root has them, from its own on.
Place gather_part(Exchange& x, int root, Place from, const Blocks& blocks);
/// `bytes` is that of this member's subtree; slots: one a round.
ScratchSize gather_needs(int size, int me, int root, const Blocks& blocks);

/// Blocks from their packed places (from rank blocks.first() on) to the caller's places for them.
void unrotate(Builder& b, const Blocks& blocks, Place from, Place to);
/// And back.
void rotate(Builder& b, const Blocks& blocks, Place from, Place to);

/// Rounds of an algorithm that doubles: the smallest k with 2^k >= size.
constexpr int rounds_of(int size) {
  int rounds = 0;
  while ((std::int64_t{1} << rounds) < size) ++rounds;
  return rounds;
}

}  // namespace hmc::collectives::schedule
