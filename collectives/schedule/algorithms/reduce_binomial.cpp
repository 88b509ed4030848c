// Reduce up a binomial tree: ceil(log2 N) hops of the whole vector.
//
// A member reduces its children's sums, the nearest child first. These are sums of the ranks just after those summed so
// far, so order is kept. For operations that don't commute, rank 0 is the top of the tree and sends the result to the
// root.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceBinomial {
  static void build(Builder& b) {
    const int root = b.call.root;
    const std::uint64_t bytes = vector_bytes(b.call), area = align_to_line(bytes);
    const int top = b.call.commutative ? root : 0, relative = (b.rank - top + b.size) % b.size;
    const auto rank_of = [&](int number) { return (number + top) % b.size; };
    const auto rounds = static_cast<std::uint32_t>(rounds_of(b.size));
    b.allocate_scratch((rounds + 1) * area);
    Operand sum = input();
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
    if (top != root) {
      if (b.rank == top) b.send(sum, root, rounds * area, bytes, rounds);
      if (b.rank == root) {
        b.receive(top, rounds, bytes);
        sum = scratch(rounds * area);
      }
    }
    if (b.rank != root) return;
    b.flush_local_in_place();
    b.copy(sum, output(), bytes);
    b.scale(output(), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint32_t messages = slot_number(rounds_of(shape.size) + 1);
    return {messages * align_to_line(vector_bytes(call)), messages};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call);
    cost_of_binomial(
        path.size, [&](double distance) { path.hop(distance, bytes); },
        [&](double distance) { path.send_only(distance, 0); });
    path.reduce(rounds_of(path.size) * bytes);
    path.copy(bytes);
  }
};

}  // namespace

constinit const Algorithm reduce_binomial{
    .name = "binomial",
    .collective = CollectiveKind::reduce,
    .build = ReduceBinomial::build,
    .scratch_size = ReduceBinomial::scratch_size,
    .cost = ReduceBinomial::cost,
};

}  // namespace hmc::collectives::schedule
