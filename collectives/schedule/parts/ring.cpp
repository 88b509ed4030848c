#include "collectives/schedule/parts/ring.hpp"

namespace hmc::collectives::schedule {

void reduce_scatter_rounds(Ring& ring, const BlockProperty& in_input, const BlockProperty& packed,
                           const BlockProperty& bytes_of, Operand to) {
  Builder& b = ring.b;
  const int first = ring.block_at(1);
  const Segments sent = ring.cut(bytes_of(first));
  for (std::uint32_t s = 0; s < sent.count(); ++s)
    ring.send(input(in_input(first) + sent.begin(s)), 0, packed(first) + sent.begin(s), sent.bytes(s), s);
  for (int round = 0; round < b.size - 1; ++round) {
    const int block = ring.block_at(round + 2);
    const bool is_last = round == b.size - 2;
    const Segments cut = ring.cut(bytes_of(block));
    if (is_last) b.flush_local_in_place();
    for (std::uint32_t s = 0; s < cut.count(); ++s) {
      const std::uint64_t at = packed(block) + cut.begin(s);
      const Operand sum = ring.receive(round, at, cut.bytes(s), s);
      b.reduce(input(in_input(block) + cut.begin(s)), sum, cut.bytes(s));
      if (!is_last)
        ring.send(sum, round + 1, at, cut.bytes(s), s);
      else
        b.copy(sum, to + cut.begin(s), cut.bytes(s));
    }
  }
  b.scale(to, bytes_of(b.rank));
}

void allgather_rounds(Ring& ring, Operand mine, const BlockProperty& packed, const BlockProperty& bytes_of,
                      const std::function<Operand(int)>& to) {
  Builder& b = ring.b;
  const Segments own = ring.cut(bytes_of(b.rank));
  for (std::uint32_t s = 0; b.size > 1 && s < own.count(); ++s)
    ring.send(mine + own.begin(s), 0, packed(b.rank) + own.begin(s), own.bytes(s), s);
  b.copy(mine, to(b.rank), bytes_of(b.rank));
  for (int round = 0; round < b.size - 1; ++round) {
    const int block = ring.block_at(round + 1);
    const Segments cut = ring.cut(bytes_of(block));
    for (std::uint32_t s = 0; s < cut.count(); ++s) {
      const std::uint64_t at = packed(block) + cut.begin(s);
      const Operand arrived = ring.receive(round, at, cut.bytes(s), s);
      if (round < b.size - 2) ring.send(arrived, round + 1, at, cut.bytes(s), s);
      b.copy(arrived, to(block) + cut.begin(s), cut.bytes(s));
    }
  }
}

std::uint64_t largest_block(const Blocks& blocks) {
  std::uint64_t largest = 0;
  for (int r = 0; r < blocks.size(); ++r) largest = std::max(largest, blocks.bytes(r));
  return largest;
}

std::uint32_t ring_slots(const Shape& shape, const Call& call, std::uint64_t block, bool segmented) {
  const std::uint32_t per_round =
      segmented ? segment_bound(block, segment_size(call, ring_segment), call.element_bytes) : (block > 0 ? 1U : 0U);
  return slot_number(shape.size - 1) * per_round;
}

}  // namespace hmc::collectives::schedule
