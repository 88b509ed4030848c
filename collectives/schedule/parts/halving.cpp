#include "collectives/schedule/parts/halving.hpp"

#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// A range of slices.
struct SliceRange {
  int begin, end;
  SliceRange half(bool upper) const {
    const int middle = (begin + end) / 2;
    return upper ? SliceRange{middle, end} : SliceRange{begin, middle};
  }
};

/// The division of the vector among the members of a group, and the scratch areas for received messages.
struct HalvingLayout {
  HalvingLayout(int size, std::uint64_t count, std::uint32_t element)
      : clusters{size, power_within(size, 2)},
        rounds(rounds_of(clusters.count)),
        bytes(count * element),
        slices(count, clusters.count, element) {
    std::uint64_t at = clusters.scratch(bytes);
    for (int round = 0; round < rounds; ++round) {
      areas[round] = at;
      at += align_to_line(static_cast<std::uint64_t>(clusters.count >> (round + 1)) * slices.largest());
    }
    gathered = at;
  }
  /// Includes one more slot, for the message to the root in reduce.
  ScratchSize scratch_size() const {
    return {gathered + bytes, clusters.slots() + static_cast<std::uint32_t>(2 * rounds + 1)};
  }

  Clusters clusters;
  int rounds;
  std::uint64_t bytes;
  Slices slices;
  std::uint64_t areas[32] = {};  ///< offset of each round's received message
  std::uint64_t gathered = 0;    ///< offset of the area for the second phase, in which each slice has its own place
};

/// Reduces the elements at `from` among a group, with the result at `to`.
class Halving {
 public:
  Halving(GroupBuilder& exchange, const HalvingPartners& partners, Operand from, Operand to, std::uint64_t count)
      : x(exchange),
        b(exchange.b),
        partners_(partners),
        from_(from),
        to_(to),
        layout_(exchange.group.size, count, exchange.b.call.element_bytes),
        me_(layout_.clusters.cluster_of(exchange.group.me)) {}

  void allreduce() {
    const Operand sum = reduce_scatter();
    if (is_leader()) allgather(sum);
    const Operand result = broadcast_from_leader(x, layout_.clusters, to_, layout_.bytes);
    if (!is_leader()) b.flush_local_in_place();
    b.copy(result, to_, layout_.bytes);
  }

  void reduce(int root) {
    const Operand sum = reduce_scatter();
    const int home = leader_of(layout_.clusters.cluster_of(root));
    if (is_leader()) gather(sum, layout_.clusters.cluster_of(root));
    const Operand gathered = x.local(layout_.gathered);
    if (home != root) {
      if (x.group.me == home) x.send(gathered, root, layout_.gathered, layout_.bytes, slot(2 * layout_.rounds));
      if (x.group.me == root) x.receive(home, slot(2 * layout_.rounds), layout_.bytes);
    }
    if (x.group.me != root) return;
    b.flush_local_in_place();
    b.copy(gathered, to_, layout_.bytes);
    b.scale(to_, layout_.bytes);
  }

 private:
  int leader_of(int cluster) const { return layout_.clusters.leader(cluster); }
  bool is_leader() const { return x.group.me == leader_of(me_); }
  std::uint32_t slot(int index) const { return layout_.clusters.slots() + static_cast<std::uint32_t>(index); }
  int peer(int round) const { return leader_of(partners_.partner(me_, round, layout_.clusters.count)); }
  bool keeps_upper(int round) const { return partners_.keeps_upper(me_, round, layout_.rounds); }
  std::uint64_t begin(SliceRange range) const { return layout_.slices.begin(range.begin); }
  std::uint64_t bytes(SliceRange range) const { return layout_.slices.bytes(range.begin, range.end); }

  /// The ranges that this rank holds before each round and after the last one.
  std::vector<SliceRange> ranges() const {
    std::vector<SliceRange> ranges{{0, layout_.clusters.count}};
    for (int round = 0; round < layout_.rounds; ++round) ranges.push_back(ranges.back().half(keeps_upper(round)));
    return ranges;
  }

  /// Returns the place of the sum of this rank's slice.
  Operand reduce_scatter() {
    Operand sum = reduce_to_leader(x, layout_.clusters, from_, layout_.bytes);
    if (!is_leader()) return sum;
    std::uint64_t base = 0;
    SliceRange mine{0, layout_.clusters.count};
    for (int round = 0; round < layout_.rounds; ++round) {
      const bool upper = keeps_upper(round);
      const SliceRange theirs = mine.half(!upper);
      mine = mine.half(upper);
      const std::uint64_t area = layout_.areas[round];
      x.send(sum + (begin(theirs) - base), peer(round), area, bytes(theirs), slot(round));
      x.receive(peer(round), slot(round), bytes(mine));
      const Operand kept = sum + (begin(mine) - base);
      if (upper)
        b.reduce(kept, x.local(area), bytes(mine));
      else
        b.reduce_before(kept, x.local(area), bytes(mine));
      sum = x.local(area);
      base = begin(mine);
    }
    return sum;
  }

  /// Copies this rank's slice to its output, then doubles the range in each round.
  void allgather(Operand sum) {
    const std::vector<SliceRange> held = ranges();
    const SliceRange slice = held.back();
    b.flush_local_in_place();
    b.copy(sum, to_ + begin(slice), bytes(slice));
    b.scale(to_ + begin(slice), bytes(slice));
    for (int round = layout_.rounds - 1; round >= 0; --round) {
      const SliceRange mine = held[static_cast<std::size_t>(round) + 1];
      const SliceRange theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      x.send(to_ + begin(mine), peer(round), layout_.gathered + begin(mine), bytes(mine), slot(layout_.rounds + round));
      x.receive(peer(round), slot(layout_.rounds + round), bytes(theirs));
      b.copy(x.local(layout_.gathered + begin(theirs)), to_ + begin(theirs), bytes(theirs));
    }
  }

  /// Collects the slices in the scratch of cluster `home`. Only for partners that differ in one bit.
  void gather(Operand sum, int home) {
    const std::vector<SliceRange> held = ranges();
    const std::uint64_t gathered = layout_.gathered;
    b.copy(sum, x.local(gathered + begin(held.back())), bytes(held.back()));
    for (int round = layout_.rounds - 1; round >= 0; --round) {
      const SliceRange mine = held[static_cast<std::size_t>(round) + 1];
      if (((me_ ^ home) >> round & 1) != 0) {
        x.send(x.local(gathered + begin(mine)), peer(round), gathered + begin(mine), bytes(mine),
               slot(layout_.rounds + round));
        return;
      }
      const SliceRange theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      x.receive(peer(round), slot(layout_.rounds + round), bytes(theirs));
    }
  }

  GroupBuilder& x;
  Builder& b;
  const HalvingPartners& partners_;
  Operand from_, to_;
  HalvingLayout layout_;
  int me_;  ///< this member's cluster
};

void cost_of_bit_exchange(CriticalPath& path, int round, double every, double bytes) {
  path.exchange(static_cast<double>(std::int64_t{1} << round), every, bytes);
}

/// The inverse of cost_of_halving, with copies.
void cost_of_doubling(CriticalPath& path, double members, double bytes, const HalvingPartners& partners) {
  double part = bytes / members;
  path.copy(part);
  for (int i = rounds_of(static_cast<int>(members)) - 1; i >= 0; --i, part *= 2) {
    partners.cost(path, i, path.size / members, part);
    path.copy(part);
  }
}

}  // namespace

const HalvingPartners bit_partners{[](int number, int round, int) { return number ^ (1 << round); },
                                   [](int number, int round, int) { return (number >> round & 1) != 0; },
                                   cost_of_bit_exchange};

ScratchSize halving_size(int size, std::uint64_t count, std::uint32_t element_bytes) {
  return HalvingLayout(size, count, element_bytes).scratch_size();
}

void allreduce_halving_in(GroupBuilder& x, const HalvingPartners& partners, Operand from, Operand to,
                          std::uint64_t count) {
  Halving(x, partners, from, to, count).allreduce();
}

void reduce_halving_in(GroupBuilder& x, int root, Operand from, Operand to, std::uint64_t count) {
  Halving(x, bit_partners, from, to, count).reduce(root);
}

void cost_of_halving(CriticalPath& path, double members, double bytes, const HalvingPartners& partners) {
  double part = bytes / 2;
  for (int i = 0; 1 << i < members; ++i, part /= 2) {
    partners.cost(path, i, path.size / members, part);
    path.reduce(part);
  }
}

void cost_of_allreduce_halving(CriticalPath& path, double bytes, const HalvingPartners& partners) {
  const ClusterCost clusters = ClusterCost::of_team(path, 2);
  clusters.reduce_to_leader(path, bytes);
  cost_of_halving(path, clusters.count(), bytes, partners);
  cost_of_doubling(path, clusters.count(), bytes, partners);
  clusters.broadcast_from_leader(path, bytes);
  if (clusters.count() < path.size) path.copy(bytes);
}

}  // namespace hmc::collectives::schedule
