// Broadcast down two binary trees, each for one half of the message, in segments. The trees contain all ranks but the
// root. The root sends to the top ranks of both trees.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/double_tree.hpp"

namespace hmc::collectives::schedule {
namespace {

struct BroadcastDoubleTree {
  static void build(Builder& b) {
    const int root = b.call.root;
    const TreeHalves halves(b.call);
    const bool is_root = b.rank == root;
    if (!is_root) b.allocate_scratch(vector_bytes(b.call));
    const int others = b.size - 1, me = (b.rank - root - 1 + b.size) % b.size;
    const PipelineTree trees[2] = {{others, PipelineTree::plain}, second_tree(others, false)};
    const auto rank_of = [&](int member) { return (member + root + 1) % b.size; };
    for (std::uint32_t i = 0; others > 0 && i < halves.count(); ++i)
      for (int t = 0; t < 2; ++t) {
        const std::uint64_t begin = halves.begin(t, i), bytes = halves.bytes(t, i);
        const std::uint32_t slot = 2 * i + static_cast<std::uint32_t>(t);
        if (is_root) {
          b.send(input(begin), rank_of(trees[t].top()), begin, bytes, slot);
          continue;
        }
        const int parent = trees[t].parent(me);
        b.receive(parent == no_member ? root : rank_of(parent), slot, bytes);
        for (const int child : {trees[t].before(me), trees[t].after(me)})
          if (child != no_member) b.send(scratch(begin), rank_of(child), begin, bytes, slot);
        b.copy(scratch(begin), output(begin), bytes);
      }
    if (is_root) b.copy(input(), output(), vector_bytes(b.call));
  }

  static ScratchSize scratch_size(const Shape&, const Call& call) {
    return {vector_bytes(call), 2 * tree_segment_bound(call)};
  }

  /// Ranks execute their steps in order, and the root of one tree is a leaf of the other. So a pair of segments passes
  /// both trees before the next pair does.
  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call), segments = cost_segments(bytes / 2, segment_size(call, tree_segment));
    const double part = bytes / 2 / segments;
    const int depth = std::max(rounds_of(path.size), 1), outside = path.nodes > 1 ? rounds_of(path.nodes) : 0;
    // Fitted to the replay (tests/unit/sim/cost_test.cpp): messages of both trees meet at an adapter.
    const double senders = path.per_node == 1 ? 1.2 : 2;
    path.repeat(segments, [&](CriticalPath& pair) {
      pair.repeat(2.0 * outside, [&](CriticalPath& level) { level.network_message(part, senders); });
      pair.repeat(2.0 * (depth - outside), [&](CriticalPath& level) { level.node_message(part); });
    });
    path.copy(part);
  }
};

}  // namespace

constinit const Algorithm broadcast_double_tree{
    .name = "double_tree",
    .collective = CollectiveKind::broadcast,
    .deterministic = true,
    .tuned_by = {.segments = true},
    .build = BroadcastDoubleTree::build,
    .scratch_size = BroadcastDoubleTree::scratch_size,
    .cost = BroadcastDoubleTree::cost,
};

}  // namespace hmc::collectives::schedule
