// Allreduce over two binary trees, each for one half of the vector: up to the root and down again, segment by segment.
// See parts/double_tree.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/double_tree.hpp"

namespace hmc::collectives::schedule {
namespace {

class DoubleTreeSteps {
 public:
  explicit DoubleTreeSteps(Builder& builder)
      : b(builder),
        halves_(b.call),
        trees_{{b.size, PipelineTree::plain}, second_tree(b.size, !b.call.commutative)},
        area_(align_to_line(vector_bytes(b.call))) {
    b.allocate_scratch(3 * area_);
  }

  void build() {
    // A segment goes down 2 log2 N iterations after it went up, so the pipeline stays full.
    const auto ahead = static_cast<std::uint32_t>(2 * rounds_of(b.size));
    for (std::uint32_t i = 0; i < halves_.count() + ahead; ++i)
      for (int tree = 0; tree < 2; ++tree) {
        reduce_up(tree, i);
        if (i >= ahead) broadcast_down(tree, i - ahead);
      }
  }

 private:
  /// Received messages: the sum of the ranks before this one, of those after it, and the result.
  enum Received { from_before, from_after, result };
  std::uint64_t offset(Received message, std::uint64_t begin) const { return message * area_ + begin; }
  std::uint32_t slot(Received message, int tree, std::uint32_t i) const {
    return (2 * i + static_cast<std::uint32_t>(tree)) * 3 + message;
  }

  void reduce_up(int number, std::uint32_t i) {
    const PipelineTree& tree = trees_[number];
    const std::uint64_t begin = halves_.begin(number, i), bytes = halves_.bytes(number, i);
    const int before = tree.before(b.rank), after = tree.after(b.rank), parent = tree.parent(b.rank);
    Operand sum = input(begin);
    if (before != no_member) {
      const Operand received = scratch(offset(from_before, begin));
      b.receive(before, slot(from_before, number, i), bytes);
      b.reduce(sum, received, bytes);
      sum = received;
    }
    if (after != no_member) {
      const Operand received = scratch(offset(from_after, begin));
      b.receive(after, slot(from_after, number, i), bytes);
      b.reduce_before(sum, received, bytes);
      sum = received;
    }
    if (parent != no_member) {
      const Received message = tree.before(parent) == b.rank ? from_before : from_after;
      b.send(sum, parent, offset(message, begin), bytes, slot(message, number, i));
      return;
    }
    b.copy(sum, output(begin), bytes);
    b.scale(output(begin), bytes);
    send_to_children(number, i, output(begin));
  }

  void broadcast_down(int number, std::uint32_t i) {
    const std::uint64_t begin = halves_.begin(number, i), bytes = halves_.bytes(number, i);
    const int parent = trees_[number].parent(b.rank);
    if (parent == no_member) return;
    const Operand received = scratch(offset(result, begin));
    b.receive(parent, slot(result, number, i), bytes);
    send_to_children(number, i, received);
    b.copy(received, output(begin), bytes);
  }

  void send_to_children(int number, std::uint32_t i, Operand from) {
    const std::uint64_t to = offset(result, halves_.begin(number, i));
    for (const int child : {trees_[number].before(b.rank), trees_[number].after(b.rank)})
      if (child != no_member) b.send(from, child, to, halves_.bytes(number, i), slot(result, number, i));
  }

  Builder& b;
  TreeHalves halves_;
  PipelineTree trees_[2];
  std::uint64_t area_;
};

struct AllreduceDoubleTree {
  static void build(Builder& b) { DoubleTreeSteps(b).build(); }

  static ScratchSize scratch_size(const Shape&, const Call& call) {
    return {3 * align_to_line(vector_bytes(call)), 6 * tree_segment_bound(call)};
  }

  /// Each pair of segments passes up and down the trees before the next pair starts, as in broadcast.
  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call), segments = cost_segments(bytes / 2, segment_size(call, tree_segment));
    const double part = bytes / 2 / segments;
    const int depth = rounds_of(path.size), outside = path.nodes > 1 ? rounds_of(path.nodes) : 0;
    // Fitted to the replay (tests/unit/sim/cost_test.cpp): messages of both trees and both directions meet at an
    // adapter.
    const double senders = path.per_node == 1 ? 1.5 : 2;
    path.repeat(segments, [&](CriticalPath& pair) {
      pair.repeat(4.0 * outside, [&](CriticalPath& level) { level.network_message(part, senders); });
      pair.repeat(4.0 * (depth - outside), [&](CriticalPath& level) { level.node_message(part); });
      pair.reduce(3.0 * depth * part);
    });
    path.copy(part);
  }
};

}  // namespace

constinit const Algorithm allreduce_double_tree{
    .name = "double_tree",
    .collective = CollectiveKind::allreduce,
    .tuned_by = {.segments = true},
    .build = AllreduceDoubleTree::build,
    .scratch_size = AllreduceDoubleTree::scratch_size,
    .cost = AllreduceDoubleTree::cost,
};

}  // namespace hmc::collectives::schedule
