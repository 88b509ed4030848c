// Scratch and slots of each algorithm, as the maximum over all ranks: the sums that its Builder computes, without the
// steps.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/lanes.hpp"
#include "collectives/schedule/algorithms/pairs.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule::scratch_size {
namespace {

std::uint64_t bytes_of(const Call& call) { return call.count * call.element_bytes; }
std::uint64_t wide(int number) { return static_cast<std::uint64_t>(number); }
std::uint32_t slots_of(int number) { return static_cast<std::uint32_t>(std::max(number, 0)); }
std::uint64_t all_bytes(const Shape& shape, const Call& call) { return wide(shape.size) * bytes_of(call); }
ScratchSize rounds(const Shape& shape, std::uint64_t scratch) { return {scratch, slots_of(rounds_of(shape.size))}; }

/// The largest number of segments of a block of up to `bytes`.
std::uint32_t most_segments(std::uint64_t bytes, std::uint64_t wanted, std::uint64_t element) {
  const std::uint64_t whole = (std::max<std::uint64_t>(wanted, 1) + element - 1) / element * element;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((bytes + whole - 1) / whole, 1024));
}
std::uint64_t segment_of(const Call& call, std::uint64_t otherwise) {
  return call.segment_bytes > 0 ? call.segment_bytes : otherwise;
}
std::uint32_t ring_slots(const Shape& shape, const Call& call, std::uint64_t block, bool segmented) {
  const std::uint32_t each =
      segmented ? most_segments(block, segment_of(call, ring_segment), call.element_bytes) : (block > 0 ? 1U : 0U);
  return slots_of(shape.size - 1) * each;
}
ScratchSize ring_allreduce(const Shape& shape, const Call& call, bool segmented) {
  const std::uint64_t slice = Slices(call.count, shape.size, call.element_bytes).largest();
  return {bytes_of(call), 2 * ring_slots(shape, call, slice, segmented)};
}
ScratchSize ring_blocks(const Shape& shape, const Call& call, bool segmented) {
  return {all_bytes(shape, call), ring_slots(shape, call, bytes_of(call), segmented)};
}

std::uint32_t tree_segments(const Call& call) {
  return most_segments(Slices(call.count, 2, call.element_bytes).largest(), segment_of(call, tree_segment),
                       call.element_bytes);
}

/// The whole vectors of all ranks, as received and again in rank order.
ScratchSize gathered(const Shape& shape, const Call& call) {
  return rounds(shape, line_up(all_bytes(shape, call)) + all_bytes(shape, call));
}

/// Messages received in all rounds, and packed for them. In a v-form, blocks may be smaller than `count`, so each
/// message may need up to one cache line more.
ScratchSize aggregated(const Shape& shape, const Call& call) {
  ScratchSize scratch_size;
  const std::uint64_t block = bytes_of(call), size = wide(shape.size);
  if (block == 0) return scratch_size;
  const std::uint64_t fit = std::max<std::uint64_t>(segment_of(call, pat_message) / block, 1);
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    const std::uint64_t many = (size - distance + 2 * distance - 1) / (2 * distance), rest = many % fit;
    const std::uint64_t full = many / fit * line_up(fit * block);
    scratch_size.scratch +=
        full + line_up(rest * block) + (fit > 1 ? full + (rest > 1 ? line_up(rest * block) : 0) : 0);
    const std::uint64_t messages = (many + fit - 1) / fit;
    scratch_size.slots += static_cast<std::uint32_t>(messages);
    if (call.irregular()) scratch_size.scratch += 64 * messages * (fit > 1 ? 2 : 1);
  }
  return scratch_size;
}

ScratchSize hierarchical_allreduce(const Shape& shape, const Call& call, bool halves) {
  const Lanes lanes(shape, 0);
  const Slices slices(call.count, lanes.many(), call.element_bytes);
  const ScratchSize lane = halves
                               ? halving_needs(lanes.nodes(), slices.largest() / call.element_bytes, call.element_bytes)
                               : allreduce_needs(lanes.nodes(), slices.largest(), 2);
  const std::uint64_t turns = wide(lanes.turns()), cells = turns * wide(lanes.many());
  return {line_up(cells * line_up(slices.largest())) + line_up(turns * lane.scratch) + bytes_of(call),
          static_cast<std::uint32_t>(cells + turns * lane.slots + wide(lanes.many()))};
}

ScratchSize multiplying(const Shape& shape, const Call& call, int radix) {
  return allreduce_needs(shape.size, bytes_of(call), radix);
}

}  // namespace

ScratchSize barrier_dissemination(const Shape& shape, const Call&) { return rounds(shape, 0); }
ScratchSize barrier_hierarchical(const Shape& shape, const Call&) {
  const Lanes lanes(shape, 0);
  return {0, slots_of(lanes.many() + 1 + rounds_of(lanes.nodes()))};
}

ScratchSize broadcast_binomial(const Shape&, const Call& call) { return {bytes_of(call), 1}; }
ScratchSize broadcast_double_tree(const Shape&, const Call& call) { return {bytes_of(call), 2 * tree_segments(call)}; }
ScratchSize broadcast_hierarchical(const Shape& shape, const Call& call) {
  return {bytes_of(call), slots_of(Lanes(shape, 0).many())};
}

ScratchSize reduce_binomial(const Shape& shape, const Call& call) {
  const int rounds = rounds_of(shape.size) + 1;
  return {wide(rounds) * line_up(bytes_of(call)), slots_of(rounds)};
}
ScratchSize reduce_rabenseifner(const Shape& shape, const Call& call) {
  return halving_needs(shape.size, call.count, call.element_bytes);
}
ScratchSize reduce_fold(const Shape& shape, const Call& call) { return gathered(shape, call); }

ScratchSize allreduce_doubling(const Shape& shape, const Call& call) { return multiplying(shape, call, 2); }
ScratchSize allreduce_multiplying(const Shape& shape, const Call& call) {
  return multiplying(shape, call, call.radix > 1 ? call.radix : 4);
}
ScratchSize allreduce_rabenseifner(const Shape& shape, const Call& call) {
  return halving_needs(shape.size, call.count, call.element_bytes);
}
ScratchSize allreduce_swing(const Shape& shape, const Call& call) { return allreduce_rabenseifner(shape, call); }
ScratchSize allreduce_ring(const Shape& shape, const Call& call) { return ring_allreduce(shape, call, false); }
ScratchSize allreduce_ring_segmented(const Shape& shape, const Call& call) { return ring_allreduce(shape, call, true); }
ScratchSize allreduce_double_tree(const Shape&, const Call& call) {
  return {3 * line_up(bytes_of(call)), 6 * tree_segments(call)};
}
ScratchSize allreduce_fold_slices(const Shape& shape, const Call& call) {
  const std::uint64_t slice = Slices(call.count, shape.size, call.element_bytes).largest();
  return {wide(shape.size) * line_up(slice) + bytes_of(call), slots_of(2 * shape.size)};
}
ScratchSize allreduce_fold_gathered(const Shape& shape, const Call& call) { return gathered(shape, call); }
ScratchSize allreduce_hierarchical(const Shape& shape, const Call& call) {
  return hierarchical_allreduce(shape, call, false);
}
ScratchSize allreduce_hierarchical_halving(const Shape& shape, const Call& call) {
  return hierarchical_allreduce(shape, call, true);
}

ScratchSize gather_binomial(const Shape& shape, const Call& call) {
  return rounds(shape, line_up(all_bytes(shape, call)));
}
ScratchSize gather_linear(const Shape& shape, const Call& call) {
  return {all_bytes(shape, call) - bytes_of(call), slots_of(shape.size)};
}
ScratchSize scatter_binomial(const Shape& shape, const Call& call) { return {all_bytes(shape, call), 1}; }
ScratchSize scatter_linear(const Shape&, const Call& call) { return {bytes_of(call), 1}; }

ScratchSize allgather_bruck(const Shape& shape, const Call& call) { return rounds(shape, all_bytes(shape, call)); }
ScratchSize allgather_ring(const Shape& shape, const Call& call) { return ring_blocks(shape, call, false); }
ScratchSize allgather_ring_segmented(const Shape& shape, const Call& call) { return ring_blocks(shape, call, true); }
ScratchSize allgather_pat(const Shape& shape, const Call& call) { return aggregated(shape, call); }
ScratchSize allgather_hierarchical(const Shape& shape, const Call& call) {
  const Lanes lanes(shape, 0);
  const ScratchSize lane = allgather_needs(lanes.nodes(), wide(lanes.nodes()) * bytes_of(call));
  const std::uint64_t turns = wide(lanes.turns()), many = wide(lanes.many());
  return {(turns + many) * lane.scratch, static_cast<std::uint32_t>(turns * lane.slots + many)};
}
ScratchSize allgather_hierarchical_ring(const Shape& shape, const Call& call) {
  return {all_bytes(shape, call), slots_of(shape.size)};
}

ScratchSize alltoall_bruck(const Shape& shape, const Call& call) {
  std::uint64_t scratch = 0;
  for (int hop = 1; hop < shape.size; hop *= 2) {
    const int whole = shape.size / (2 * hop) * hop, rest = shape.size % (2 * hop);  // numbers below size with that bit
    scratch += 2 * line_up(wide(whole + std::max(0, rest - hop)) * bytes_of(call));
  }
  return rounds(shape, scratch);
}
ScratchSize alltoall_pairwise(const Shape& shape, const Call& call) {
  const std::uint64_t cell = line_up(bytes_of(call)), others = wide(std::max(shape.size - 1, 1));
  const std::uint64_t wanted = call.segment_bytes > 0 ? call.segment_bytes * 16 : alltoall_cells;
  const std::uint64_t cells = cell > 0 ? std::min(std::max<std::uint64_t>(wanted / cell, 2), others) : 0;
  const int credits = cells < others ? shape.size - 1 : 0;
  return {cells * cell + (call.in_place ? all_bytes(shape, call) : 0), slots_of(shape.size - 1 + credits)};
}

ScratchSize reduce_scatter_ring(const Shape& shape, const Call& call) { return ring_blocks(shape, call, false); }
ScratchSize reduce_scatter_ring_segmented(const Shape& shape, const Call& call) {
  return ring_blocks(shape, call, true);
}
ScratchSize reduce_scatter_pairwise(const Shape& shape, const Call& call) {
  return {wide(shape.size - 1) * line_up(bytes_of(call)) + (call.in_place ? bytes_of(call) : 0),
          slots_of(shape.size - 1)};
}
ScratchSize reduce_scatter_pat(const Shape& shape, const Call& call) { return aggregated(shape, call); }
ScratchSize reduce_scatter_fold(const Shape& shape, const Call& call) {
  return {wide(shape.size) * line_up(bytes_of(call)), slots_of(shape.size)};
}

ScratchSize scan_doubling(const Shape& shape, const Call& call) {
  return rounds(shape, wide(rounds_of(shape.size)) * line_up(bytes_of(call)));
}
ScratchSize scan_fold(const Shape& shape, const Call& call) { return gathered(shape, call); }
ScratchSize exscan_doubling(const Shape& shape, const Call& call) {
  return rounds(shape, wide(rounds_of(shape.size) + 1) * line_up(bytes_of(call)));
}
ScratchSize exscan_fold(const Shape& shape, const Call& call) { return gathered(shape, call); }

}  // namespace hmc::collectives::schedule::scratch_size
