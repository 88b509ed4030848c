// Gather up and scatter down a binomial tree: ceil(log2 N) messages at the root, for short blocks.
//
// Members are numbered from the root. The subtree of v is the range [v, v + lowest set bit of v), so its blocks in that
// order are one message.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// The subtrees, in numbers relative to the root.
struct BinomialTree {
  int size, root;

  int relative(int number) const { return (number - root + size) % size; }
  int number(int relative) const { return (relative + root) % size; }
  /// The lowest set bit; for the root, a bit above all numbers.
  int bit_of(int v) const { return v == 0 ? 1 << rounds_of(size) : v & -v; }
  int end_of(int v) const { return std::min(v + bit_of(v), size); }
};

std::uint64_t bytes_between(const Blocks& blocks, int first, int end) {
  return blocks.before(end) - blocks.before(first);
}

}  // namespace

ScratchSize gather_needs(int size, int me, int root, const Blocks& blocks) {
  const BinomialTree tree{size, root};
  const int v = tree.relative(me);
  return {line_up(bytes_between(blocks, v, tree.end_of(v))), static_cast<std::uint32_t>(rounds_of(size))};
}

Place gather_part(Exchange& x, int root, Place from, const Blocks& blocks) {
  const BinomialTree tree{x.group.size, root};
  const int v = tree.relative(x.group.me), bit = tree.bit_of(v);
  Place held = from;
  if (tree.end_of(v) > v + 1 || v == 0) {
    held = x.mine(0);
    x.b.copy(from, held, bytes_between(blocks, v, v + 1));
  }
  std::uint32_t slot = 0;
  for (int child = 1; child < bit && v + child < tree.size; child *= 2, ++slot)
    x.receive(tree.number(v + child), slot, bytes_between(blocks, v + child, tree.end_of(v + child)));
  if (v != 0)
    x.send(held, tree.number(v - bit), bytes_between(blocks, v - bit, v), bytes_between(blocks, v, tree.end_of(v)),
           static_cast<std::uint32_t>(rounds_of(bit)));
  return held;
}

void gather_binomial(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call, call.root);
  const Group group = whole_team(b, b.take_scratch(gather_needs(b.size, rank, call.root, blocks).scratch));
  Exchange x(b, group);
  const Place all = gather_part(x, call.root, input(), blocks);
  if (rank == call.root) unrotate(b, blocks, all, output());
  b.finish();
}

void scatter_binomial(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call, call.root);
  const BinomialTree tree{b.size, call.root};
  const int v = tree.relative(rank), bit = tree.bit_of(v);
  const std::uint64_t held = bytes_between(blocks, v, tree.end_of(v));
  const Place all = scratch(b.take_scratch(held));
  if (v == 0)
    rotate(b, blocks, input(), all);
  else
    b.receive(tree.number(v - bit), 0, held);
  for (int child = bit / 2; child > 0; child /= 2)
    if (v + child < b.size)
      b.send(all + bytes_between(blocks, v, v + child), tree.number(v + child), 0,
             bytes_between(blocks, v + child, tree.end_of(v + child)), 0);
  b.copy(all, output(), blocks.bytes(rank));
  b.finish();
}

}  // namespace hmc::collectives::schedule
