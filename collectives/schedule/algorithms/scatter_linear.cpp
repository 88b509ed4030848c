// Scatter with direct messages from the root. Each byte travels once; for long and irregular blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ScatterLinear {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    if (b.rank == b.call.root) {
      for (int i = 1; i < b.size; ++i) {
        const int other = (b.rank + i) % b.size;
        b.send(input(blocks.offset(other)), other, 0, blocks.bytes(other), 0);
      }
      b.copy(input(blocks.offset(b.rank)), output(), blocks.bytes(b.rank));
    } else {
      const Operand block = scratch(b.allocate_scratch(blocks.bytes(b.rank)));
      b.receive(b.call.root, 0, blocks.bytes(b.rank));
      b.copy(block, output(), blocks.bytes(b.rank));
    }
  }

  static ScratchSize scratch_size(const Shape&, const Call& call) { return {vector_bytes(call), 1}; }

  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call), near = path.per_node - 1, away = path.size - path.per_node;
    path.add_ns(near * (path.node().overhead + bytes * path.node().per_byte));
    path.add_ns(away * std::max(path.network().overhead, path.network().gap + bytes * path.network().per_byte));
    if (path.size > 1) path.add_ns(path.slowest_link().latency + 2 * path.slowest_link().overhead);
    path.count(near, near * bytes, false);
    path.count(away, away * bytes, true);
    path.copy(bytes);
  }
};

}  // namespace

constinit const Algorithm scatter_linear{
    .name = "linear",
    .collective = CollectiveKind::scatter,
    .deterministic = true,
    .build = ScatterLinear::build,
    .scratch_size = ScatterLinear::scratch_size,
    .cost = ScatterLinear::cost,
};

}  // namespace hmc::collectives::schedule
