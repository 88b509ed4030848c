// PAT, parallel aggregated trees: each block has its own binomial tree, and all trees advance one level per round.
// Blocks for the same rank in the same round share messages of a bounded size. ceil(log2 N) rounds. For long blocks,
// scratch and messages are no larger than a ring's.
//
// allgather: distances decrease, so the long hops carry few blocks and most bytes go to near ranks. A rank at distance
// v from a block's owner forwards the block to v + d, for d = ..., 4, 2, 1, if v is a multiple of 2d.
// reduce_scatter: the same trees backwards; commutative operations only.
#pragma once

#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"

namespace hmc::collectives::schedule {

/// Default limit of a message, in bytes.
inline constexpr std::uint64_t pat_message = 64 << 10;

void build_allgather_pat(Builder& b);
void build_reduce_scatter_pat(Builder& b);
ScratchSize pat_size(const Shape& shape, const Call& call);
/// `reduces`: the blocks received in this round are reduced.
void cost_of_pat_round(CriticalPath& path, const Call& call, double distance, bool reduces);

}  // namespace hmc::collectives::schedule
