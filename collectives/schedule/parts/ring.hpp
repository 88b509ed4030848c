// Rings over the whole team: N-1 rounds with one neighbour. Each byte crosses each link once, which is optimal for long
// vectors.
//
// The sum of block b starts at rank b+1 and ends at rank b, from which copies continue around the ring. With segments,
// a rank forwards part of a block while the rest arrives. Reductions are for commutative operations only, because sums
// start in the middle of the team.
#pragma once

#include <functional>

#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {

/// Default size of a segment.
inline constexpr std::uint64_t ring_segment = 64 << 10;

/// Rounds of a ring, in segments: a whole block, or `segment_bytes` of it. Every block has its own offset in scratch on
/// each rank.
class Ring {
 public:
  Ring(Builder& builder, std::uint64_t scratch, std::uint64_t largest_block, bool segmented, std::uint32_t first_slot)
      : b(builder),
        scratch_(scratch),
        first_slot_(first_slot),
        segment_(segmented ? segment_size(b.call, ring_segment) : largest_block),
        slots_per_round_(cut(largest_block).count()) {}

  Segments cut(std::uint64_t bytes) const { return Segments(bytes, segment_, b.call.element_bytes); }
  int block_at(int steps_back) const { return (b.rank - steps_back % b.size + 2 * b.size) % b.size; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(b.size - 1) * slots_per_round_; }

  void send(Operand from, int round, std::uint64_t at, std::uint64_t bytes, std::uint32_t segment) {
    b.send(from, (b.rank + 1) % b.size, scratch_ + at, bytes, slot(round, segment));
  }
  Operand receive(int round, std::uint64_t at, std::uint64_t bytes, std::uint32_t segment) {
    b.receive((b.rank - 1 + b.size) % b.size, slot(round, segment), bytes);
    return scratch(scratch_ + at);
  }

  Builder& b;

 private:
  std::uint32_t slot(int round, std::uint32_t segment) const {
    return first_slot_ + static_cast<std::uint32_t>(round) * slots_per_round_ + segment;
  }

  std::uint64_t scratch_;
  std::uint32_t first_slot_;
  std::uint64_t segment_;
  std::uint32_t slots_per_round_;
};

/// A property of a block: its offset in the input, its offset in scratch, or its size.
using BlockProperty = std::function<std::uint64_t(int)>;

/// Circulates the sums. Leaves the sum of this rank's block in `to`, scaled. The team has at least two ranks.
void reduce_scatter_rounds(Ring& ring, const BlockProperty& in_input, const BlockProperty& packed,
                           const BlockProperty& bytes_of, Operand to);
/// Circulates the blocks; this rank's block is at `mine`. Copies each block to to(block).
void allgather_rounds(Ring& ring, Operand mine, const BlockProperty& packed, const BlockProperty& bytes_of,
                      const std::function<Operand(int)>& to);

std::uint64_t largest_block(const Blocks& blocks);
/// Slots of one ring whose largest block has `block` bytes.
std::uint32_t ring_slots(const Shape& shape, const Call& call, std::uint64_t block, bool segmented);
/// Scratch and slots of a ring over one block per rank.
inline ScratchSize ring_size(const Shape& shape, const Call& call, bool segmented) {
  return {team_bytes(shape, call), ring_slots(shape, call, vector_bytes(call), segmented)};
}
inline double cost_ring_segments(const Call& call, double block, bool segmented) {
  return segmented ? cost_segments(block, segment_size(call, ring_segment)) : 1;
}

}  // namespace hmc::collectives::schedule
