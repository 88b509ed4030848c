// Barrier in three phases: the ranks of a node signal their leader, the leaders disseminate, and each leader releases
// its node.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {
namespace {

struct BarrierHierarchical {
  static void build(Builder& b) {
    const Lanes lanes(b.shape, b.rank);
    const int leader = lanes.first_of(lanes.node());
    const std::uint32_t released = slot_number(lanes.count());
    if (b.rank != leader) {
      b.signal(leader, slot_number(lanes.local()));
      b.wait(leader, released);
      return;
    }
    for (int local = 1; local < lanes.my_ranks(); ++local) b.wait(lanes.rank_of_local(local), slot_number(local));
    std::uint32_t round = released + 1;
    for (int distance = 1; distance < lanes.nodes(); distance *= 2, ++round) {
      b.signal(lanes.first_of((lanes.node() + distance) % lanes.nodes()), round);
      b.wait(lanes.first_of((lanes.node() - distance + lanes.nodes()) % lanes.nodes()), round);
    }
    for (int local = 1; local < lanes.my_ranks(); ++local) b.signal(lanes.rank_of_local(local), released);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call&) {
    const Lanes lanes(shape, 0);
    return {0, slot_number(lanes.count() + 1 + rounds_of(lanes.nodes()))};
  }

  static void cost(CriticalPath& path, const Call&) {
    signal_node(path);
    for_each_doubling(path.nodes, [&](double) { path.network_message(0, 1); });
    signal_node(path);
  }

 private:
  /// The leader of a node receives a signal from each other rank of the node, or sends one to each.
  static void signal_node(CriticalPath& path) {
    if (path.per_node == 1) return;
    path.node_message(0);
    path.add_ns((path.per_node - 2) * path.node().overhead);
  }
};

}  // namespace

constinit const Algorithm barrier_hierarchical{
    .name = "hierarchical",
    .collective = CollectiveKind::barrier,
    .deterministic = true,
    .hierarchical = true,
    .build = BarrierHierarchical::build,
    .scratch_size = BarrierHierarchical::scratch_size,
    .cost = BarrierHierarchical::cost,
};

}  // namespace hmc::collectives::schedule
