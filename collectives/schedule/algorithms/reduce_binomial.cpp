// Reduce up a binomial tree: ceil(log2 N) hops of the whole vector.
//
// A member reduces its children's sums, the nearest child first. These are sums of the ranks just after those summed so
// far, so order is kept. For operations that don't commute, rank 0 is the top of the tree and sends the result to the
// root.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {

void reduce_binomial(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes, area = line_up(bytes);
  const int top = call.commutative ? call.root : 0, relative = (rank - top + b.size) % b.size;
  const auto rank_of = [&](int number) { return (number + top) % b.size; };
  const auto rounds = static_cast<std::uint32_t>(rounds_of(b.size));
  b.take_scratch((rounds + 1) * area);
  Place sum = input();
  std::uint32_t round = 0;
  for (int bit = 1; bit < b.size; bit *= 2, ++round) {
    if ((relative & bit) != 0) {
      b.send(sum, rank_of(relative - bit), round * area, bytes, round);
      break;
    }
    if (relative + bit >= b.size) continue;
    b.receive(rank_of(relative + bit), round, bytes);
    b.reduce_before(sum, scratch(round * area), bytes);
    sum = scratch(round * area);
  }
  if (top != call.root) {
    if (rank == top) b.send(sum, call.root, rounds * area, bytes, rounds);
    if (rank == call.root) {
      b.receive(top, rounds, bytes);
      sum = scratch(rounds * area);
    }
  }
  if (rank == call.root) {
    b.settle_in_place();
    b.copy(sum, output(), bytes);
    b.scale(output(), bytes);
  }
  b.finish();
}

}  // namespace hmc::collectives::schedule
