// Binomial trees over a group: broadcast down and gather up.
//
// Members are numbered relative to the root. A member's parent has its number without the lowest set bit. The subtree
// of v is the range [v, v + lowest set bit of v), so its blocks in that order are one message.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {

struct BinomialTree {
  int size, root;

  int relative(int number) const { return (number - root + size) % size; }
  int number(int relative) const { return (relative + root) % size; }
  /// The lowest set bit; for the root, a bit above all numbers.
  int bit_of(int v) const { return v == 0 ? 1 << rounds_of(size) : v & -v; }
  int end_of(int v) const { return std::min(v + bit_of(v), size); }
};

/// Bytes of the blocks [first, end), in numbers relative to the root.
inline std::uint64_t bytes_between(const Blocks& blocks, int first, int end) {
  return blocks.prefix_bytes(end) - blocks.prefix_bytes(first);
}

/// A member sends to its largest subtree first. It receives into scratch and forwards from there. Returns the message.
/// Scratch: the message, except at the root. Slots: one.
Operand broadcast_binomial_in(GroupBuilder& x, int root, Operand from, std::uint64_t bytes);

/// `blocks` begin at the root. At the root, returns all blocks, the root's own first.
/// Scratch: the blocks of this member's subtree, see gather_binomial_scratch. Slots: one per round.
Operand gather_binomial_in(GroupBuilder& x, int root, Operand from, const Blocks& blocks);
inline std::uint64_t gather_binomial_scratch(int size, int me, int root, const Blocks& blocks) {
  const BinomialTree tree{size, root};
  const int v = tree.relative(me);
  return align_to_line(bytes_between(blocks, v, tree.end_of(v)));
}

/// The critical path down or up a tree of the whole team: step(distance) for every level. If `members` isn't a power of
/// two, the highest level isn't on the path and only occupies the root: busy(distance).
template <typename Step, typename Busy> void cost_of_binomial(int members, const Step& step, const Busy& busy) {
  for_each_halving(members, [&](double distance) {
    const bool is_highest = distance * 2 >= members;
    is_highest&& distance * 2 > members ? busy(distance) : step(distance);
  });
}
/// The cost of a gather of blocks of `block` bytes. A scatter costs the same.
inline void cost_of_gather_binomial(CriticalPath& path, double block) {
  const auto bytes = [&](double distance) { return std::min(distance, path.size - distance) * block; };
  cost_of_binomial(
      path.size, [&](double distance) { path.hop(distance, bytes(distance)); },
      [&](double distance) { path.send_only(distance, bytes(distance)); });
}

}  // namespace hmc::collectives::schedule
