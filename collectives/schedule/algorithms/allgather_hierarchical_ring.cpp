// Hierarchical allgather with lanes as rings: a rank forwards each block on arrival, to the next node and to the ranks
// of its own node. Each rank receives each block once; each block has its own offset in scratch and its own slot. For a
// last node with fewer ranks, some lanes have no block.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllgatherHierarchicalRing {
  static void build(Builder& b) {
    const Lanes lanes(b.shape, b.rank);
    const Blocks blocks(b.size, b.call);
    const int nodes = lanes.nodes(), before = (lanes.node() + nodes - 1) % nodes, after = (lanes.node() + 1) % nodes;
    b.allocate_scratch(blocks.total());
    b.reserve_slots(slot_number(b.size));
    const auto send = [&](Operand from, int block, int to) {
      b.send(from, to, blocks.packed_offset(block), blocks.bytes(block), slot_number(block));
    };
    const auto receive = [&](int block, int from) {
      b.receive(from, slot_number(block), blocks.bytes(block));
      return scratch(blocks.packed_offset(block));
    };
    // Calls each(block, node) for the blocks of a lane. Starts with this node and goes against the ring's direction.
    const auto for_each_block = [&](int lane, const auto& each) {
      for (int i = 0; i < nodes; ++i)
        if (const int node = (lanes.node() + nodes - i) % nodes; lane < lanes.ranks_of(node))
          each(lanes.first_of(node) + lane, node);
    };
    for (int lane = lanes.local(); lane < lanes.count(); lane += lanes.my_ranks()) {
      for_each_block(lane, [&](int block, int node) {
        const Operand held = block == b.rank ? input() : receive(block, lanes.holder(before, lane));
        if (node != after) send(held, block, lanes.holder(after, lane));
        for (int i = 1; i < lanes.my_ranks(); ++i)
          send(held, block, lanes.rank_of_local((lanes.local() + i) % lanes.my_ranks()));
        b.copy(held, output(blocks.offset(block)), blocks.bytes(block));
      });
    }
    for (int i = 1; i < lanes.count(); ++i) {
      const int lane = (lanes.local() + i) % lanes.count();
      if (lanes.is_mine(lane)) continue;
      for_each_block(lane, [&](int block, int) {
        b.copy(receive(block, lanes.holder(lanes.node(), lane)), output(blocks.offset(block)), blocks.bytes(block));
      });
    }
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {team_bytes(shape, call), slot_number(shape.size)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double block = cost_bytes(call);
    const auto exchange_on_node = [&](CriticalPath& round) {
      cost_of_node_alltoall(round, block);
      round.copy(block);
    };
    // The ranks of a node exchange a block while the next one is in flight.
    path.repeat(path.nodes - 1, [&](CriticalPath& round) {
      round.overlap([&](CriticalPath& next) { next.network_message(block, next.per_node); }, exchange_on_node);
    });
    exchange_on_node(path);
    path.copy((path.per_node - 1) * path.nodes * block);
  }
};

}  // namespace

constinit const Algorithm allgather_hierarchical_ring{
    .name = "hierarchical_ring",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .hierarchical = true,
    .build = AllgatherHierarchicalRing::build,
    .scratch_size = AllgatherHierarchicalRing::scratch_size,
    .cost = AllgatherHierarchicalRing::cost,
};

}  // namespace hmc::collectives::schedule
