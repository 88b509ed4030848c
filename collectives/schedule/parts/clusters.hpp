// Clusters: for algorithms that need a power of two (or of the radix), reduce a group of any size to one.
// Neighbours form a cluster. Its leader, the first member, takes part for all its members.
#pragma once

#include <algorithm>

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/group.hpp"
#include "collectives/schedule/parts/sizes.hpp"

namespace hmc::collectives::schedule {

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
