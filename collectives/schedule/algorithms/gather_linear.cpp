// Gather with direct messages to the root. Each byte travels once; for long and irregular blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct GatherLinear {
  static void build(Builder& b) {
    const int root = b.call.root;
    const Blocks blocks(b.size, b.call, root);
    // The root's own block is the first in packed order and needs no scratch.
    const std::uint64_t own = blocks.bytes(root);
    if (b.rank != root) {
      b.send(input(), root, blocks.packed_offset(b.rank) - own, blocks.bytes(b.rank), slot_number(b.rank));
      return;
    }
    b.allocate_scratch(blocks.total() - own);
    b.copy(input(), output(blocks.offset(root)), own);
    for (int i = 1; i < b.size; ++i) {
      const int other = (root + i) % b.size;
      b.receive(other, slot_number(other), blocks.bytes(other));
      b.copy(scratch(blocks.packed_offset(other) - own), output(blocks.offset(other)), blocks.bytes(other));
    }
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {team_bytes(shape, call) - vector_bytes(call), slot_number(shape.size)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call), others = path.size - 1, away = path.size - path.per_node;
    if (others == 0) return path.copy(bytes);
    const LinkCost &near = path.node(), &far = path.network(), &link = path.slowest_link();
    const double root = (others - away) * near.overhead + away * far.overhead + path.compute_ns(others * bytes, 0);
    const double adapter = away * (far.gap + bytes * far.per_byte);
    // The root waits in rank order, but messages arrive in any order, so the two overlap only partly: half of the
    // shorter one, fitted to the replay (tests/unit/sim/cost_test.cpp). On a node each sender copies its own block;
    // between nodes the root's adapter carries all blocks.
    path.add_ns(std::max(root, adapter) + std::min(root, adapter) / 2 + link.overhead + link.latency +
                (away > 0 ? 0 : bytes * near.per_byte));
    path.count(others - away, (others - away) * bytes, false);
    path.count(away, away * bytes, true);
  }
};

}  // namespace

constinit const Algorithm gather_linear{
    .name = "linear",
    .collective = CollectiveKind::gather,
    .deterministic = true,
    .build = GatherLinear::build,
    .scratch_size = GatherLinear::scratch_size,
    .cost = GatherLinear::cost,
};

}  // namespace hmc::collectives::schedule
