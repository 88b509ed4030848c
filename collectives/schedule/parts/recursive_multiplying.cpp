#include "collectives/schedule/parts/recursive_multiplying.hpp"

#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {
namespace {

int rounds_to(int size, int radix) {
  int rounds = 0;
  for (int power = 1; power <= size / radix; power *= radix) ++rounds;
  return rounds;
}

/// Combines the sums of one round. Every member starts from digit 0: another order or grouping would round differently
/// on each rank.
Operand combine(Builder& b, Operand mine, int digit, int radix, const std::function<Operand(int)>& received,
                std::uint64_t bytes) {
  const Operand sum = received(digit > 0 ? 0 : 1);
  if (digit == 0) b.reduce_before(mine, sum, bytes);
  for (int d = digit > 0 ? 1 : 2; d < radix; ++d) b.reduce(d == digit ? mine : received(d), sum, bytes);
  return sum;
}

}  // namespace

ScratchSize allreduce_multiplying_size(int size, std::uint64_t bytes, int radix) {
  const Clusters clusters{size, power_within(size, radix)};
  const auto messages = static_cast<std::uint32_t>(rounds_to(size, radix) * (radix - 1));
  return {clusters.scratch(bytes) + messages * align_to_line(bytes), clusters.slots() + messages};
}

Operand allreduce_multiplying_in(GroupBuilder& x, Operand from, std::uint64_t bytes, int radix) {
  const Clusters clusters{x.group.size, power_within(x.group.size, radix)};
  Operand sum = reduce_to_leader(x, clusters, from, bytes);
  const int cluster = clusters.cluster_of(x.group.me);
  const std::uint64_t area = clusters.scratch(bytes);
  if (x.group.me == clusters.leader(cluster)) {
    int round = 0;
    for (int power = 1; power < clusters.count; power *= radix, ++round) {
      const int digit = cluster / power % radix;
      // Index of the scratch area and slot in which digit `to` receives from digit `sender`.
      const auto index_of = [&](int to, int sender) {
        return round * (radix - 1) + (sender < to ? sender : sender - 1);
      };
      const auto offset = [&](int index) { return area + static_cast<std::uint64_t>(index) * align_to_line(bytes); };
      const auto slot = [&](int index) { return clusters.slots() + static_cast<std::uint32_t>(index); };
      const auto peer = [&](int other) { return clusters.leader(cluster + (other - digit) * power); };
      for (int i = 1; i < radix; ++i) {
        const int other = (digit + i) % radix, index = index_of(other, digit);
        x.send(sum, peer(other), offset(index), bytes, slot(index));
      }
      for (int i = 1; i < radix; ++i) {
        const int other = (digit - i + radix) % radix;
        x.receive(peer(other), slot(index_of(digit, other)), bytes);
      }
      const auto received = [&](int other) { return x.local(offset(index_of(digit, other))); };
      sum = combine(x.b, sum, digit, radix, received, bytes);
    }
  }
  return broadcast_from_leader(x, clusters, sum, bytes);
}

void cost_of_allreduce_multiplying(CriticalPath& path, double bytes, int radix) {
  const ClusterCost clusters = ClusterCost::of_team(path, radix);
  clusters.reduce_to_leader(path, bytes);
  for (double distance = 1; distance < clusters.count(); distance *= radix) {
    path.exchange(distance, path.size / clusters.count(), bytes, radix - 1);
    path.reduce((radix - 1) * bytes);
  }
  clusters.broadcast_from_leader(path, bytes);
}

}  // namespace hmc::collectives::schedule
