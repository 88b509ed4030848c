// Allreduce around a ring: a reduce_scatter, then an allgather of slices. Commutative operations only. See
// parts/ring.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/ring.hpp"

namespace hmc::collectives::schedule {
namespace {

template <bool segmented> struct AllreduceRing {
  static void build(Builder& b) {
    const Slices slices(b.call.count, b.size, b.call.element_bytes);
    const BlockProperty begin = [&](int slice) { return slices.begin(slice); };
    const BlockProperty bytes_of = [&](int slice) { return slices.bytes(slice); };
    const std::uint64_t area = b.allocate_scratch(vector_bytes(b.call));
    Ring sums(b, area, slices.largest(), segmented, 0);
    const Operand mine = output(slices.begin(b.rank));
    if (b.size == 1) {
      b.copy(input(), mine, slices.bytes(0));
      b.scale(mine, slices.bytes(0));
    } else {
      reduce_scatter_rounds(sums, begin, begin, bytes_of, mine);
    }
    // A copy of a block reuses the scratch of the block's partial sum. The sum was forwarded before the copy can
    // arrive, since the copy starts where the sum ended.
    Ring copies(b, area, slices.largest(), segmented, sums.slots());
    allgather_rounds(copies, mine, begin, bytes_of, [&](int slice) { return output(slices.begin(slice)); });
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint64_t slice = Slices(call.count, shape.size, call.element_bytes).largest();
    return {vector_bytes(call), 2 * ring_slots(shape, call, slice, segmented)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double slice = cost_bytes(call) / path.size, segments = cost_ring_segments(call, slice, segmented);
    path.ring(path.size - 1, slice, segments, 0, slice);
    path.copy(slice);
    path.ring(path.size - 1, slice, segments, slice, 0);
  }
};

}  // namespace

constinit const Algorithm allreduce_ring{
    .name = "ring",
    .collective = CollectiveKind::allreduce,
    .keeps_order = false,
    .build = AllreduceRing<false>::build,
    .scratch_size = AllreduceRing<false>::scratch_size,
    .cost = AllreduceRing<false>::cost,
};

constinit const Algorithm allreduce_ring_segmented{
    .name = "ring_segmented",
    .collective = CollectiveKind::allreduce,
    .keeps_order = false,
    .tuned_by = {.segments = true},
    .build = AllreduceRing<true>::build,
    .scratch_size = AllreduceRing<true>::scratch_size,
    .cost = AllreduceRing<true>::cost,
};

}  // namespace hmc::collectives::schedule
