// Broadcast in three phases: the root sends a slice to each rank of its node, the lanes broadcast it to the other
// nodes, and the ranks of each node exchange their slices. A rank receives each slice once, in one of the three phases.
// In all of them the slice has the same offset in scratch and the same slot.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {
namespace {

struct BroadcastHierarchical {
  static void build(Builder& b) {
    const int root = b.call.root, home = b.shape.node_of(root);
    const Lanes lanes(b.shape, b.rank);
    const Slices slices(b.call.count, lanes.count(), b.call.element_bytes);
    const bool is_root = b.rank == root;
    if (!is_root) b.allocate_scratch(slices.begin(lanes.count()));
    for (int lane = 0; is_root && lane < lanes.count(); ++lane)
      if (!lanes.is_mine(lane))
        b.send(input(slices.begin(lane)), lanes.holder(home, lane), slices.begin(lane), slices.bytes(lane),
               slot_number(lane));
    for (int lane = lanes.local(); lane < lanes.count(); lane += lanes.my_ranks()) {
      const std::uint64_t begin = slices.begin(lane), bytes = slices.bytes(lane);
      if (!is_root && lanes.node() == home) b.receive(root, slot_number(lane), bytes);
      const Group group{lanes.nodes(), lanes.node(), [&](int node) {
                          return GroupMember{lanes.holder(node, lane), begin, slot_number(lane)};
                        }};
      GroupBuilder x(b, group);
      const Operand slice = broadcast_binomial_in(x, home, is_root ? input(begin) : scratch(begin), bytes);
      for (int i = 1; i < lanes.my_ranks(); ++i) {
        const int other = lanes.rank_of_local((lanes.local() + i) % lanes.my_ranks());
        if (other != root) b.send(slice, other, begin, bytes, slot_number(lane));
      }
      b.copy(slice, output(begin), bytes);
    }
    for (int lane = 0; lane < lanes.count(); ++lane) {
      if (lanes.is_mine(lane)) continue;
      const std::uint64_t begin = slices.begin(lane), bytes = slices.bytes(lane);
      if (!is_root) b.receive(lanes.holder(lanes.node(), lane), slot_number(lane), bytes);
      b.copy(is_root ? input(begin) : scratch(begin), output(begin), bytes);
    }
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {vector_bytes(call), slot_number(Lanes(shape, 0).count())};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double lanes = cost_lanes(path, call), slice = cost_bytes(call) / lanes;
    cost_of_node_alltoall(path, slice);
    for_each_halving(path.nodes, [&](double) { path.network_message(slice, lanes); });
    cost_of_node_alltoall(path, slice);
    path.copy(cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm broadcast_hierarchical{
    .name = "hierarchical",
    .collective = CollectiveKind::broadcast,
    .deterministic = true,
    .hierarchical = true,
    .build = BroadcastHierarchical::build,
    .scratch_size = BroadcastHierarchical::scratch_size,
    .cost = BroadcastHierarchical::cost,
};

}  // namespace hmc::collectives::schedule
