// Hierarchical allreduce, for several ranks per node: each rank reduces one slice over its node, the lanes reduce the
// slices between nodes, and the ranks of a node exchange the results. So all ranks of a node use the network at once,
// and each byte crosses it as often as with a single rank per node.
//
// A lane uses recursive doubling (few messages, each of the whole slice) or halving (each byte crosses twice).
#include <vector>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/group.hpp"
#include "collectives/schedule/parts/halving.hpp"
#include "collectives/schedule/parts/recursive_multiplying.hpp"

namespace hmc::collectives::schedule {
namespace {

constexpr int lane_radix = 2;

/// The scratch and slots of one lane.
template <bool halving> ScratchSize lane_size(const Lanes& lanes, const Slices& slices, std::uint32_t element) {
  return halving ? halving_size(lanes.nodes(), slices.largest() / element, element)
                 : allreduce_multiplying_size(lanes.nodes(), slices.largest(), lane_radix);
}

template <bool halving> class HierarchicalSteps {
 public:
  explicit HierarchicalSteps(Builder& builder)
      : b(builder),
        lanes_(b.shape, b.rank),
        slices_(b.call.count, lanes_.count(), b.call.element_bytes),
        cell_(align_to_line(slices_.largest())),
        lane_size_(lane_size<halving>(lanes_, slices_, b.call.element_bytes)) {
    const auto turns = static_cast<std::uint64_t>(lanes_.turns()), cells = turns * index(lanes_.count());
    b.allocate_scratch(cells * cell_);
    lane_scratch_ = b.allocate_scratch(turns * lane_size_.scratch);
    result_scratch_ = b.allocate_scratch(slices_.begin(lanes_.count()));
    first_lane_slot_ = static_cast<std::uint32_t>(cells);
    first_result_slot_ = static_cast<std::uint32_t>(cells + turns * lane_size_.slots);
  }

  void build() {
    send_contributions();
    std::vector<Operand> sums;
    for (int lane = lanes_.local(); lane < lanes_.count(); lane += lanes_.my_ranks()) {
      const Group group = lanes_.group(lane, lane_scratch_, lane_size_.scratch, first_lane_slot_, lane_size_.slots);
      GroupBuilder x(b, group);
      const Operand part = reduce_contributions(lane);
      if constexpr (halving)
        allreduce_halving_in(x, bit_partners, part, output(slices_.begin(lane)),
                             slices_.bytes(lane) / b.call.element_bytes);
      else
        sums.push_back(allreduce_multiplying_in(x, part, slices_.bytes(lane), lane_radix));
    }
    b.flush_local_in_place();
    for (std::size_t i = 0; i < sums.size(); ++i)
      copy_to_output(lanes_.local() + static_cast<int>(i) * lanes_.my_ranks(), sums[i]);
    for (int lane = lanes_.local(); lane < lanes_.count(); lane += lanes_.my_ranks()) send_result(lane);
    for (int lane = 0; lane < lanes_.count(); ++lane) {
      if (lanes_.is_mine(lane)) continue;
      const std::uint64_t begin = slices_.begin(lane);
      b.receive(lanes_.holder(lanes_.node(), lane), first_result_slot_ + slot_number(lane), slices_.bytes(lane));
      b.copy(scratch(result_scratch_ + begin), output(begin), slices_.bytes(lane));
    }
  }

 private:
  static std::uint64_t index(int i) { return static_cast<std::uint64_t>(i); }
  /// The holder's cell for the contribution of local rank `local` to lane `lane`.
  int cell_number(int lane, int local) const { return lanes_.turn(lanes_.node(), lane) * lanes_.count() + local; }

  void send_contributions() {
    for (int i = 0; i < lanes_.count(); ++i) {
      const int lane = (lanes_.local() + i) % lanes_.count(), cell = cell_number(lane, lanes_.local());
      if (lanes_.is_mine(lane)) continue;
      b.send(input(slices_.begin(lane)), lanes_.holder(lanes_.node(), lane), index(cell) * cell_, slices_.bytes(lane),
             slot_number(cell));
    }
  }

  /// Reduces in rank order.
  Operand reduce_contributions(int lane) {
    const std::uint64_t bytes = slices_.bytes(lane);
    const auto contribution = [&](int local) {
      return local == lanes_.local() ? input(slices_.begin(lane)) : scratch(index(cell_number(lane, local)) * cell_);
    };
    for (int local = 0; local < lanes_.my_ranks(); ++local)
      if (local != lanes_.local()) b.receive(lanes_.rank_of_local(local), slot_number(cell_number(lane, local)), bytes);
    if (lanes_.my_ranks() == 1) return contribution(0);
    // The sum is built in the first contribution of another rank, since this rank's own is in the read-only input.
    const int into = lanes_.local() == 0 ? 1 : 0;
    if (into == 1) b.reduce_before(contribution(0), contribution(1), bytes);
    for (int local = into + 1; local < lanes_.my_ranks(); ++local)
      b.reduce(contribution(local), contribution(into), bytes);
    return contribution(into);
  }

  void copy_to_output(int lane, Operand sum) {
    b.copy(sum, output(slices_.begin(lane)), slices_.bytes(lane));
    b.scale(output(slices_.begin(lane)), slices_.bytes(lane));
  }

  void send_result(int lane) {
    const std::uint64_t begin = slices_.begin(lane), bytes = slices_.bytes(lane);
    for (int i = 1; i < lanes_.my_ranks(); ++i) {
      const int other = lanes_.rank_of_local((lanes_.local() + i) % lanes_.my_ranks());
      b.send(output(begin), other, result_scratch_ + begin, bytes, first_result_slot_ + slot_number(lane));
    }
  }

  Builder& b;
  Lanes lanes_;
  Slices slices_;
  std::uint64_t cell_;
  ScratchSize lane_size_;
  std::uint64_t lane_scratch_ = 0, result_scratch_ = 0;
  std::uint32_t first_lane_slot_ = 0, first_result_slot_ = 0;
};

template <bool halving> struct AllreduceHierarchical {
  static void build(Builder& b) { HierarchicalSteps<halving>(b).build(); }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const Lanes lanes(shape, 0);
    const Slices slices(call.count, lanes.count(), call.element_bytes);
    const ScratchSize lane = lane_size<halving>(lanes, slices, call.element_bytes);
    const auto turns = static_cast<std::uint64_t>(lanes.turns()), count = static_cast<std::uint64_t>(lanes.count());
    return {align_to_line(turns * count * align_to_line(slices.largest())) + align_to_line(turns * lane.scratch) +
                vector_bytes(call),
            static_cast<std::uint32_t>(turns * count + turns * lane.slots + count)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double lanes = cost_lanes(path, call), slice = cost_bytes(call) / lanes, others = path.per_node - 1;
    const double messages = std::max(1.0, (lanes - 1 + others) / 2);  // mean of messages sent and received
    if (others > 0) path.node_message(slice, messages);
    path.reduce(others * slice);
    cost_of_lane(path, slice, lanes);
    if (others > 0) path.node_message(slice, messages);
    path.copy((lanes - 1) * slice);
  }

 private:
  static void cost_of_lane(CriticalPath& path, double slice, double lanes) {
    const ClusterCost clusters = ClusterCost::of_lane(path, lanes);
    const double members = clusters.count();
    clusters.reduce_to_leader(path, slice);
    if constexpr (halving) {
      double part = slice / 2;
      for (double remaining = members; remaining > 1; remaining /= 2, part /= 2) {
        path.network_message(part, lanes);
        path.reduce(part);
      }
      path.copy(slice / members);
      part = slice / members;
      for (double held = 1; held < members; held *= 2, part *= 2) {
        path.network_message(part, lanes);
        path.copy(part);
      }
      clusters.broadcast_from_leader(path, slice);
      if (members < path.nodes) path.copy(slice);
    } else {
      for (double distance = 1; distance < members; distance *= 2) {
        path.network_message(slice, lanes);
        path.reduce(slice);
      }
      clusters.broadcast_from_leader(path, slice);
      path.copy(slice);
    }
  }
};

}  // namespace

constinit const Algorithm allreduce_hierarchical{
    .name = "hierarchical",
    .collective = CollectiveKind::allreduce,
    .hierarchical = true,
    .build = AllreduceHierarchical<false>::build,
    .scratch_size = AllreduceHierarchical<false>::scratch_size,
    .cost = AllreduceHierarchical<false>::cost,
};

constinit const Algorithm allreduce_hierarchical_halving{
    .name = "hierarchical_halving",
    .collective = CollectiveKind::allreduce,
    .hierarchical = true,
    .build = AllreduceHierarchical<true>::build,
    .scratch_size = AllreduceHierarchical<true>::scratch_size,
    .cost = AllreduceHierarchical<true>::cost,
};

}  // namespace hmc::collectives::schedule
