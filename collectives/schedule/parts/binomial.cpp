#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {

Operand broadcast_binomial_in(GroupBuilder& x, int root, Operand from, std::uint64_t bytes) {
  const int size = x.group.size, relative = (x.group.me - root + size) % size;
  const auto number_of = [&](int relative_to_root) { return (relative_to_root + root) % size; };
  Operand message = from;
  int bit = 1;
  while (bit < size && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    message = x.local(0);
    x.receive(number_of(relative - bit), 0, bytes);
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (relative + bit < size) x.send(message, number_of(relative + bit), 0, bytes, 0);
  return message;
}

Operand gather_binomial_in(GroupBuilder& x, int root, Operand from, const Blocks& blocks) {
  const BinomialTree tree{x.group.size, root};
  const int v = tree.relative(x.group.me), bit = tree.bit_of(v);
  Operand held = from;
  if (tree.end_of(v) > v + 1 || v == 0) {
    held = x.local(0);
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

}  // namespace hmc::collectives::schedule
