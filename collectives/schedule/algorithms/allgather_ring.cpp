// Allgather around a ring: N-1 rounds. See parts/ring.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/ring.hpp"

namespace hmc::collectives::schedule {
namespace {

template <bool segmented> struct AllgatherRing {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    Ring ring(b, b.allocate_scratch(blocks.total()), largest_block(blocks), segmented, 0);
    allgather_rounds(
        ring, input(), [&](int block) { return blocks.packed_offset(block); },
        [&](int block) { return blocks.bytes(block); }, [&](int block) { return output(blocks.offset(block)); });
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return ring_size(shape, call, segmented); }

  static void cost(CriticalPath& path, const Call& call) {
    const double block = cost_bytes(call);
    path.ring(path.size - 1, block, cost_ring_segments(call, block, segmented), block, 0);
    path.copy(block);
  }
};

}  // namespace

constinit const Algorithm allgather_ring{
    .name = "ring",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .build = AllgatherRing<false>::build,
    .scratch_size = AllgatherRing<false>::scratch_size,
    .cost = AllgatherRing<false>::cost,
};

constinit const Algorithm allgather_ring_segmented{
    .name = "ring_segmented",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .tuned_by = {.segments = true},
    .build = AllgatherRing<true>::build,
    .scratch_size = AllgatherRing<true>::scratch_size,
    .cost = AllgatherRing<true>::cost,
};

}  // namespace hmc::collectives::schedule
