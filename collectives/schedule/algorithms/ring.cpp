// Rings: reduce_scatter, allgather, and allreduce as one after the other. N-1 rounds with one neighbour. Each byte
// crosses each link once, which is optimal for long vectors.
//
// The sum of block b starts at rank b+1 and ends at rank b, from which copies continue around the ring. With segments,
// a rank forwards part of a block while the rest arrives. Reductions are for commutative operations only, because sums
// start in the middle of the team.
#include <functional>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Rounds of a ring, in segments. Every block has its own place in scratch on each rank.
class Ring {
 public:
  Ring(Builder& builder, std::uint64_t scratch, std::uint64_t largest_block, bool segmented, std::uint32_t first_slot)
      : b(builder),
        scratch_(scratch),
        first_slot_(first_slot),
        wanted_(!segmented             ? largest_block
                : b.call.segment_bytes ? b.call.segment_bytes
                                       : ring_segment),
        most_(cut(largest_block).many()) {}

  Segments cut(std::uint64_t bytes) const { return Segments(bytes, wanted_, b.call.element_bytes); }
  int block_at(int steps_back) const { return (b.rank - steps_back % b.size + 2 * b.size) % b.size; }
  int next() const { return (b.rank + 1) % b.size; }
  int previous() const { return (b.rank - 1 + b.size) % b.size; }
  std::uint32_t slot(int round, std::uint32_t segment) const {
    return first_slot_ + static_cast<std::uint32_t>(round) * most_ + segment;
  }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(b.size - 1) * most_; }

  void send(Place from, int round, std::uint64_t at, std::uint64_t bytes, std::uint32_t segment) {
    b.send(from, next(), scratch_ + at, bytes, slot(round, segment));
  }
  Place receive(int round, std::uint64_t at, std::uint64_t bytes, std::uint32_t segment) {
    b.receive(previous(), slot(round, segment), bytes);
    return scratch(scratch_ + at);
  }

  Builder& b;

 private:
  std::uint64_t scratch_;
  std::uint32_t first_slot_;
  std::uint64_t wanted_;
  std::uint32_t most_;
};

/// A property of a block: its offset in the input, its offset in scratch, or its size.
using Where = std::function<std::uint64_t(int)>;

/// Circulates the sums. Leaves the sum of this rank's block in `to`, scaled.
void reduce_scatter_rounds(Ring& ring, const Where& in_input, const Where& packed, const Where& bytes_of, Place to) {
  Builder& b = ring.b;
  const int first = ring.block_at(1);
  const Segments sent = ring.cut(bytes_of(first));
  for (std::uint32_t s = 0; s < sent.many(); ++s)
    ring.send(input(in_input(first) + sent.begin(s)), 0, packed(first) + sent.begin(s), sent.bytes(s), s);
  for (int round = 0; round < b.size - 1; ++round) {
    const int block = ring.block_at(round + 2);
    const bool is_last = round == b.size - 2;
    const Segments cut = ring.cut(bytes_of(block));
    if (is_last) b.settle_in_place();
    for (std::uint32_t s = 0; s < cut.many(); ++s) {
      const std::uint64_t at = packed(block) + cut.begin(s);
      const Place sum = ring.receive(round, at, cut.bytes(s), s);
      b.reduce(input(in_input(block) + cut.begin(s)), sum, cut.bytes(s));
      if (!is_last)
        ring.send(sum, round + 1, at, cut.bytes(s), s);
      else
        b.copy(sum, to + cut.begin(s), cut.bytes(s));
    }
  }
  b.scale(to, bytes_of(b.rank));
}

/// Circulates the blocks; this rank's block is at `mine`. Copies each block to to(block).
void allgather_rounds(Ring& ring, Place mine, const Where& packed, const Where& bytes_of,
                      const std::function<Place(int)>& to) {
  Builder& b = ring.b;
  const Segments own = ring.cut(bytes_of(b.rank));
  for (std::uint32_t s = 0; b.size > 1 && s < own.many(); ++s)
    ring.send(mine + own.begin(s), 0, packed(b.rank) + own.begin(s), own.bytes(s), s);
  b.copy(mine, to(b.rank), bytes_of(b.rank));
  for (int round = 0; round < b.size - 1; ++round) {
    const int block = ring.block_at(round + 1);
    const Segments cut = ring.cut(bytes_of(block));
    for (std::uint32_t s = 0; s < cut.many(); ++s) {
      const std::uint64_t at = packed(block) + cut.begin(s);
      const Place arrived = ring.receive(round, at, cut.bytes(s), s);
      if (round < b.size - 2) ring.send(arrived, round + 1, at, cut.bytes(s), s);
      b.copy(arrived, to(block) + cut.begin(s), cut.bytes(s));
    }
  }
}

std::uint64_t largest_of(const Blocks& blocks) {
  std::uint64_t largest = 0;
  for (int r = 0; r < blocks.size(); ++r) largest = std::max(largest, blocks.bytes(r));
  return largest;
}

void allgather_by(bool segmented, const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  Ring ring(b, b.take_scratch(blocks.total()), largest_of(blocks), segmented, 0);
  allgather_rounds(
      ring, input(), [&](int block) { return blocks.packed(block); }, [&](int block) { return blocks.bytes(block); },
      [&](int block) { return output(blocks.place(block)); });
  b.finish();
}

void reduce_scatter_by(bool segmented, const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  Ring ring(b, b.take_scratch(blocks.total()), largest_of(blocks), segmented, 0);
  if (b.size == 1) {
    b.copy(input(), output(), blocks.bytes(0));
    b.scale(output(), blocks.bytes(0));
  }
  const auto place = [&](int block) { return blocks.place(block); };
  const auto packed = [&](int block) { return blocks.packed(block); };
  if (b.size > 1)
    reduce_scatter_rounds(
        ring, place, packed, [&](int block) { return blocks.bytes(block); }, output());
  b.finish();
}

void allreduce_by(bool segmented, const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Slices slices(call.count, b.size, call.element_bytes);
  const Where place = [&](int slice) { return slices.begin(slice); };
  const Where bytes_of = [&](int slice) { return slices.bytes(slice); };
  const std::uint64_t area = b.take_scratch(call.count * call.element_bytes);
  Ring sums(b, area, slices.largest(), segmented, 0);
  const Place mine = output(slices.begin(rank));
  if (b.size == 1) b.copy(input(), mine, slices.bytes(0));
  if (b.size == 1) b.scale(mine, slices.bytes(0));
  if (b.size > 1) reduce_scatter_rounds(sums, place, place, bytes_of, mine);
  // A copy of a block reuses the scratch of the block's partial sum. The sum was forwarded before the copy can arrive,
  // since the copy starts where the sum ended.
  Ring copies(b, area, slices.largest(), segmented, sums.slots());
  allgather_rounds(copies, mine, place, bytes_of, [&](int slice) { return output(slices.begin(slice)); });
  b.finish();
}

}  // namespace

void allgather_ring(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allgather_by(false, shape, call, rank, out);
}
void allgather_ring_segmented(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allgather_by(true, shape, call, rank, out);
}
void reduce_scatter_ring(const Shape& shape, const Call& call, int rank, Schedule& out) {
  reduce_scatter_by(false, shape, call, rank, out);
}
void reduce_scatter_ring_segmented(const Shape& shape, const Call& call, int rank, Schedule& out) {
  reduce_scatter_by(true, shape, call, rank, out);
}
void allreduce_ring(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(false, shape, call, rank, out);
}
void allreduce_ring_segmented(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(true, shape, call, rank, out);
}

}  // namespace hmc::collectives::schedule
