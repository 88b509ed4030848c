// Hierarchical allgather: each lane gathers the blocks of its ranks; then the ranks of a node exchange the blocks of
// their lanes.
#include <vector>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/bruck.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {
namespace {

class HierarchicalGather {
 public:
  explicit HierarchicalGather(Builder& builder)
      : b(builder),
        lanes_(b.shape, b.rank),
        blocks_(b.size, b.call),
        counts_(static_cast<std::size_t>(lanes_.count())) {
    std::uint64_t largest = 0;
    for (int lane = 0; lane < lanes_.count(); ++lane) {
      for (int node = 0; node < lanes_.nodes(); ++node)
        counts_[index(lane)].push_back(lane < lanes_.ranks_of(node) ? blocks_.bytes(lanes_.first_of(node) + lane) : 0);
      largest = std::max(largest, blocks_of(lane).total());
    }
    lane_size_ = allgather_bruck_size(lanes_.nodes(), largest);
    lane_scratch_ = b.allocate_scratch(index(lanes_.turns()) * lane_size_.scratch);
    node_scratch_ = b.allocate_scratch(index(lanes_.count()) * lane_size_.scratch);
  }

  void build() {
    for (int lane = lanes_.local(); lane < lanes_.count(); lane += lanes_.my_ranks()) gather(lane);
    for (int i = 0; i < lanes_.count(); ++i) {
      const int lane = (lanes_.local() + i) % lanes_.count();
      if (lanes_.is_mine(lane)) continue;
      b.receive(lanes_.holder(lanes_.node(), lane), slot(lane), blocks_of(lane).total());
      copy_to_output(lane, scratch(node_scratch_ + index(lane) * lane_size_.scratch));
    }
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::uint32_t slot(int lane) const { return slot_number(lanes_.turns()) * lane_size_.slots + slot_number(lane); }
  /// One block per node, from node `first` on. For a last node with fewer ranks, some lanes have an empty block.
  Blocks blocks_of(int lane, int first = 0) const {
    return Blocks(lanes_.nodes(), counts_[index(lane)], {}, 0, 1, first);
  }

  void gather(int lane) {
    const Group group = lanes_.group(lane, lane_scratch_, lane_size_.scratch, 0, lane_size_.slots);
    GroupBuilder x(b, group);
    const Operand all = allgather_bruck_in(x, input(), blocks_of(lane));
    for (int i = 1; i < lanes_.my_ranks(); ++i) {
      const int other = lanes_.rank_of_local((lanes_.local() + i) % lanes_.my_ranks());
      b.send(all, other, node_scratch_ + index(lane) * lane_size_.scratch, blocks_of(lane).total(), slot(lane));
    }
    copy_to_output(lane, all);
  }

  void copy_to_output(int lane, Operand all) {
    const Blocks packed = blocks_of(lane, lanes_.node());
    for (int node = 0; node < lanes_.nodes(); ++node)
      if (packed.bytes(node) > 0)
        b.copy(all + packed.packed_offset(node), output(blocks_.offset(lanes_.first_of(node) + lane)),
               packed.bytes(node));
  }

  Builder& b;
  Lanes lanes_;
  Blocks blocks_;
  std::vector<std::vector<std::uint64_t>> counts_;  ///< counts_[lane][node], in bytes
  ScratchSize lane_size_;
  std::uint64_t lane_scratch_ = 0, node_scratch_ = 0;
};

struct AllgatherHierarchical {
  static void build(Builder& b) { HierarchicalGather(b).build(); }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const Lanes lanes(shape, 0);
    const auto turns = static_cast<std::uint64_t>(lanes.turns()), count = static_cast<std::uint64_t>(lanes.count());
    const std::uint64_t nodes = static_cast<std::uint64_t>(lanes.nodes());
    const ScratchSize lane = allgather_bruck_size(lanes.nodes(), nodes * vector_bytes(call));
    return {(turns + count) * lane.scratch, static_cast<std::uint32_t>(turns * lane.slots + count)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double block = cost_bytes(call);
    path.copy(block);
    for_each_doubling(path.nodes, [&](double distance) {
      path.network_message(std::min(distance, path.nodes - distance) * block, path.per_node);
    });
    cost_of_node_alltoall(path, path.nodes * block);
    path.copy(path.size * block);
  }
};

}  // namespace

constinit const Algorithm allgather_hierarchical{
    .name = "hierarchical",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .hierarchical = true,
    .build = AllgatherHierarchical::build,
    .scratch_size = AllgatherHierarchical::scratch_size,
    .cost = AllgatherHierarchical::cost,
};

}  // namespace hmc::collectives::schedule
