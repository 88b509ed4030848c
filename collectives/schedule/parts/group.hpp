// Groups of ranks that execute a part of a schedule among themselves. Group: the whole team, or a lane (one rank of
// each node). Lanes: how a hierarchical algorithm divides its work. Clusters: reduce a group to a power of two or of a
// radix.
#pragma once

#include <algorithm>
#include <functional>

#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {

/// The scratch and slots of a member. Every member can compute them for every other.
struct GroupMember {
  int rank = 0;
  std::uint64_t scratch = 0;  ///< offset of the group's scratch
  std::uint32_t slot = 0;     ///< the group's first slot
};

struct Group {
  int size = 1;
  int me = 0;  ///< this rank's member number
  std::function<GroupMember(int)> member;

  int rank_of(int number) const { return member(number).rank; }
  GroupMember self() const { return member(me); }
};

/// All ranks, with the same scratch and slots on each.
inline Group whole_team(const Builder& b, std::uint64_t scratch = 0, std::uint32_t slot = 0) {
  return {b.size, b.rank, [scratch, slot](int number) { return GroupMember{number, scratch, slot}; }};
}

/// Appends messages within a group. Peers are member numbers; offsets and slots are relative to the group's.
class GroupBuilder {
 public:
  GroupBuilder(Builder& builder, const Group& group) : b(builder), group(group), self_(group.self()) {}

  void send(Operand from, int number, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
    if (bytes == 0) return;
    const GroupMember peer = group.member(number);
    b.put(from, peer.rank, peer.scratch + to, bytes, peer.slot + slot);
  }
  void receive(int number, std::uint32_t slot, std::uint64_t bytes) {
    if (bytes > 0) b.wait(group.rank_of(number), self_.slot + slot);
  }
  Operand local(std::uint64_t offset) const { return scratch(self_.scratch + offset); }

  Builder& b;
  const Group& group;

 private:
  GroupMember self_;
};

// Lanes: how a hierarchical algorithm divides its work. There are as many lanes as ranks on a full node. Lane l
// connects the ranks with local number l of all nodes. If the last node has fewer ranks, each is in several lanes.

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

// Clusters: for algorithms that need a power of two (or of the radix), reduce a group of any size to one.
// Neighbours form a cluster. Its leader, the first member, takes part for all its members.

/// `size` members in `count` clusters of neighbours, whose sizes differ by at most one. Order is kept: the members of
/// cluster i come before those of cluster i+1.
struct Clusters {
  int size, count;

  int leader(int cluster) const { return cluster * (size / count) + std::min(cluster, size % count); }
  int cluster_of(int number) const {
    const int each = size / count, large = size % count;
    return number < large * (each + 1) ? number / (each + 1) : large + (number - large * (each + 1)) / each;
  }
  int largest() const { return (size + count - 1) / count; }

  /// Slots and scratch of the two functions below, from the group's slot 0 and offset 0.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(largest()); }
  std::uint64_t scratch(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(largest() - 1) * align_to_line(bytes);
  }
};

/// The leader reduces the contributions of its cluster, which the other members send. Returns the sum at the leader.
inline Operand reduce_to_leader(GroupBuilder& x, const Clusters& clusters, Operand from, std::uint64_t bytes) {
  const int cluster = clusters.cluster_of(x.group.me);
  const int leader = clusters.leader(cluster), end = clusters.leader(cluster + 1);
  if (x.group.me != leader) {
    const auto index = static_cast<std::uint32_t>(x.group.me - leader - 1);
    x.send(from, leader, index * align_to_line(bytes), bytes, index);
    return from;
  }
  Operand sum = from;
  for (int other = leader + 1; other < end; ++other) {
    const auto index = static_cast<std::uint32_t>(other - leader - 1);
    x.receive(other, index, bytes);
    const Operand theirs = x.local(index * align_to_line(bytes));
    if (other == leader + 1) {
      x.b.reduce_before(sum, theirs, bytes);
      sum = theirs;
    } else {
      x.b.reduce(theirs, sum, bytes);
    }
  }
  return sum;
}

/// The leader sends the result to the other members of its cluster. Returns the result on this rank.
inline Operand broadcast_from_leader(GroupBuilder& x, const Clusters& clusters, Operand result, std::uint64_t bytes) {
  const int cluster = clusters.cluster_of(x.group.me);
  const int leader = clusters.leader(cluster), end = clusters.leader(cluster + 1);
  const std::uint32_t slot = clusters.slots() - 1;
  if (x.group.me == leader) {
    for (int other = leader + 1; other < end; ++other) x.send(result, other, 0, bytes, slot);
    return result;
  }
  x.receive(leader, slot, bytes);
  return x.local(0);
}

/// The costs of these functions, for a group of `members`. `senders`: see CriticalPath::network_message.
struct ClusterCost {
  int members;
  int radix;
  bool on_node;  ///< the members of a cluster share a node
  double senders;

  /// A cluster of neighbours of the whole team.
  static ClusterCost of_team(const CriticalPath& path, int radix) {
    return {path.size, radix, path.nodes == 1 || path.per_node > 1, 1};
  }
  /// A cluster of the ranks of one lane, one rank per node. `lanes` of them send at the same time.
  static ClusterCost of_lane(const CriticalPath& path, double lanes) { return {path.nodes, 2, false, lanes}; }

  Clusters clusters() const { return {members, power_within(members, radix)}; }
  double count() const { return clusters().count; }

  void reduce_to_leader(CriticalPath& path, double bytes) const {
    const double others = clusters().largest() - 1;
    if (others <= 0) return;
    if (on_node) {
      path.node_message(bytes);
      path.add_ns((others - 1) * path.node().overhead);
    } else {
      path.network_message(bytes, senders, others);
    }
    path.reduce(others * bytes);
  }
  void broadcast_from_leader(CriticalPath& path, double bytes) const {
    const double others = clusters().largest() - 1;
    if (others <= 0) return;
    on_node ? path.node_message(bytes, others) : path.network_message(bytes, senders, others);
  }
};

}  // namespace hmc::collectives::schedule
