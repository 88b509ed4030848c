// Reduce_scatter around a ring: N-1 rounds. Commutative operations only. See parts/ring.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/ring.hpp"

namespace hmc::collectives::schedule {
namespace {

template <bool segmented> struct ReduceScatterRing {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    Ring ring(b, b.allocate_scratch(blocks.total()), largest_block(blocks), segmented, 0);
    if (b.size == 1) {
      b.copy(input(), output(), blocks.bytes(0));
      b.scale(output(), blocks.bytes(0));
      return;
    }
    reduce_scatter_rounds(
        ring, [&](int block) { return blocks.offset(block); }, [&](int block) { return blocks.packed_offset(block); },
        [&](int block) { return blocks.bytes(block); }, output());
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return ring_size(shape, call, segmented); }

  static void cost(CriticalPath& path, const Call& call) {
    const double block = cost_bytes(call);
    path.ring(path.size - 1, block, cost_ring_segments(call, block, segmented), 0, block);
    path.copy(block);
  }
};

}  // namespace

constinit const Algorithm reduce_scatter_ring{
    .name = "ring",
    .collective = CollectiveKind::reduce_scatter,
    .keeps_order = false,
    .build = ReduceScatterRing<false>::build,
    .scratch_size = ReduceScatterRing<false>::scratch_size,
    .cost = ReduceScatterRing<false>::cost,
};

constinit const Algorithm reduce_scatter_ring_segmented{
    .name = "ring_segmented",
    .collective = CollectiveKind::reduce_scatter,
    .keeps_order = false,
    .tuned_by = {.segments = true},
    .build = ReduceScatterRing<true>::build,
    .scratch_size = ReduceScatterRing<true>::scratch_size,
    .cost = ReduceScatterRing<true>::cost,
};

}  // namespace hmc::collectives::schedule
