// Lanes: how a hierarchical algorithm divides its work. There are as many lanes as ranks on a full node. Lane l
// connects the ranks with local number l of all nodes. If the last node has fewer ranks, each is in several lanes.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {

class Lanes {
 public:
  Lanes(const Shape& shape, int rank)
      : size_(shape.size),
        per_node_(std::min(shape.per_node, shape.size)),
        nodes_(shape.nodes()),
        node_(shape.node_of(rank)),
        local_(rank - first_of(node_)) {}

  int count() const { return per_node_; }
  int nodes() const { return nodes_; }
  int node() const { return node_; }
  int local() const { return local_; }
  int first_of(int node) const { return node * per_node_; }
  int ranks_of(int node) const { return std::min(per_node_, size_ - first_of(node)); }
  /// The rank of `node` that is in lane `lane`, and the index of `lane` among the lanes of that rank.
  int holder(int node, int lane) const { return first_of(node) + lane % ranks_of(node); }
  int turn(int node, int lane) const { return lane / ranks_of(node); }
  /// The largest number of lanes of any rank.
  int turns() const { return (per_node_ + ranks_of(nodes_ - 1) - 1) / ranks_of(nodes_ - 1); }
  int my_ranks() const { return ranks_of(node_); }
  int rank_of_local(int local) const { return first_of(node_) + local; }
  bool is_mine(int lane) const { return lane % my_ranks() == local_; }

  /// The ranks of a lane. A rank's k-th lane uses scratch from `scratch` + k * `bytes` and slots from
  /// `slot` + k * `slots`.
  Group group(int lane, std::uint64_t scratch, std::uint64_t bytes, std::uint32_t slot, std::uint32_t slots) const {
    return {nodes_, node_, [=, this](int node) {
              const auto k = static_cast<std::uint32_t>(turn(node, lane));
              return GroupMember{holder(node, lane), scratch + k * bytes, slot + k * slots};
            }};
  }

 private:
  int size_, per_node_, nodes_, node_, local_;
};

/// The number of lanes that carry data: a short vector has fewer elements than a node has ranks.
inline double cost_lanes(const CriticalPath& path, const Call& call) {
  return std::clamp<double>(static_cast<double>(call.count), 1, path.per_node);
}
/// The cost of a message from every rank to each other rank of its node.
inline void cost_of_node_alltoall(CriticalPath& path, double bytes) {
  if (path.per_node > 1) path.node_message(bytes, path.per_node - 1);
}

}  // namespace hmc::collectives::schedule
