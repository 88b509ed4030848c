// Reduce_scatter by pairwise exchange: every rank receives all contributions to its block and reduces one per round. In
// round d each rank sends to the rank d after it. Each byte travels once. Commutative operations only.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceScatterPairwise {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    const std::uint64_t bytes = blocks.bytes(b.rank), area = align_to_line(bytes);
    b.allocate_scratch(static_cast<std::uint64_t>(b.size - 1) * area);
    // In place, the output overlaps blocks that are still being sent.
    const Operand sum = b.call.in_place && b.size > 1 ? scratch(b.allocate_scratch(bytes)) : output();
    b.copy(input(blocks.offset(b.rank)), sum, bytes);
    for (int round = 1; round < b.size; ++round) {
      const int to = (b.rank + round) % b.size, from = (b.rank - round + b.size) % b.size;
      const auto slot = static_cast<std::uint32_t>(round - 1);
      b.send(input(blocks.offset(to)), to, slot * align_to_line(blocks.bytes(to)), blocks.bytes(to), slot);
      b.receive(from, slot, bytes);
      b.reduce(scratch(slot * area), sum, bytes);
    }
    b.flush_local_in_place();
    b.copy(sum, output(), bytes);
    b.scale(output(), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {static_cast<std::uint64_t>(shape.size - 1) * align_to_line(vector_bytes(call)) +
                (call.in_place ? vector_bytes(call) : 0),
            slot_number(shape.size - 1)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    path.copy(cost_bytes(call));
    path.pairwise(cost_bytes(call));
    path.reduce((path.size - 1) * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm reduce_scatter_pairwise{
    .name = "pairwise",
    .collective = CollectiveKind::reduce_scatter,
    .keeps_order = false,
    .build = ReduceScatterPairwise::build,
    .scratch_size = ReduceScatterPairwise::scratch_size,
    .cost = ReduceScatterPairwise::cost,
};

}  // namespace hmc::collectives::schedule
