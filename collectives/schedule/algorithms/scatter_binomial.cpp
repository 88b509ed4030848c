// Scatter down a binomial tree: ceil(log2 N) messages at the root, for short blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ScatterBinomial {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call, b.call.root);
    const BinomialTree tree{b.size, b.call.root};
    const int v = tree.relative(b.rank), bit = tree.bit_of(v);
    const std::uint64_t held = bytes_between(blocks, v, tree.end_of(v));
    const Operand all = scratch(b.allocate_scratch(held));
    if (v == 0)
      pack_blocks(b, blocks, input(), all);
    else
      b.receive(tree.number(v - bit), 0, held);
    for (int child = bit / 2; child > 0; child /= 2)
      if (v + child < b.size)
        b.send(all + bytes_between(blocks, v, v + child), tree.number(v + child), 0,
               bytes_between(blocks, v + child, tree.end_of(v + child)), 0);
    b.copy(all, output(), blocks.bytes(b.rank));
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return {team_bytes(shape, call), 1}; }

  static void cost(CriticalPath& path, const Call& call) {
    path.copy(path.size * cost_bytes(call));
    cost_of_gather_binomial(path, cost_bytes(call));  // the same cost down the tree
    path.copy(cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm scatter_binomial{
    .name = "binomial",
    .collective = CollectiveKind::scatter,
    .deterministic = true,
    .build = ScatterBinomial::build,
    .scratch_size = ScatterBinomial::scratch_size,
    .cost = ScatterBinomial::cost,
};

}  // namespace hmc::collectives::schedule
