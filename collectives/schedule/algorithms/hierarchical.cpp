// Hierarchical forms, for several ranks per node: the vector is split into as many slices as a node has ranks, and each
// slice has its own lane between the nodes. So all ranks of a node use the network at once, and each byte crosses it as
// often as with one rank per node. per_node == 1 is supported.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/lanes.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

std::uint32_t slot_of(int number) { return static_cast<std::uint32_t>(number); }
std::uint64_t times(int many, std::uint64_t bytes) { return static_cast<std::uint64_t>(many) * bytes; }

/// Each rank reduces one slice over its node, the lanes reduce the slices between nodes, and the ranks of a node
/// exchange the results. A lane uses recursive doubling (few messages, each of the whole slice) or halving (each byte
/// crosses twice).
class HierarchicalAllreduce {
 public:
  enum class Lane { doubles, halves };

  HierarchicalAllreduce(Builder& builder, Lane lane)
      : b(builder),
        way_(lane),
        lanes_(b.shape, b.rank),
        slices_(b.call.count, lanes_.many(), b.call.element_bytes),
        cell_(line_up(slices_.largest())),
        needs_(lane == Lane::doubles
                   ? allreduce_needs(lanes_.nodes(), slices_.largest(), radix)
                   : halving_needs(lanes_.nodes(), slices_.largest() / b.call.element_bytes, b.call.element_bytes)) {
    b.take_scratch(times(lanes_.turns() * lanes_.many(), cell_));
    between_ = b.take_scratch(times(lanes_.turns(), needs_.scratch));
    after_ = b.take_scratch(slices_.begin(lanes_.many()));
    first_between_ = slot_of(lanes_.turns() * lanes_.many());
    first_after_ = first_between_ + slot_of(lanes_.turns()) * needs_.slots;
  }

  void build() {
    send_parts();
    std::vector<Place> sums;
    for (int lane = lanes_.local(); lane < lanes_.many(); lane += lanes_.my_ranks()) {
      const Group group = lanes_.group(lane, between_, needs_.scratch, first_between_, needs_.slots);
      Exchange x(b, group);
      const Place part = add_parts(lane);
      if (way_ == Lane::doubles)
        sums.push_back(allreduce_part(x, part, slices_.bytes(lane), radix));
      else
        halving_part(x, part, output(slices_.begin(lane)), slices_.bytes(lane) / b.call.element_bytes);
    }
    b.settle_in_place();
    for (std::size_t i = 0; i < sums.size(); ++i) take_out(my_lane(i), sums[i]);
    for (int lane = lanes_.local(); lane < lanes_.many(); lane += lanes_.my_ranks()) hand_out(lane);
    for (int lane = 0; lane < lanes_.many(); ++lane) {
      if (lanes_.is_mine(lane)) continue;
      const std::uint64_t begin = slices_.begin(lane);
      b.receive(lanes_.holder(lanes_.node(), lane), first_after_ + slot_of(lane), slices_.bytes(lane));
      b.copy(scratch(after_ + begin), output(begin), slices_.bytes(lane));
    }
    b.finish();
  }

 private:
  static constexpr int radix = 2;

  int my_lane(std::size_t i) const { return lanes_.local() + static_cast<int>(i) * lanes_.my_ranks(); }
  /// The holder's cell for the part of local rank `local` in lane `lane`.
  int cell_number(int lane, int local) const { return lanes_.turn(lanes_.node(), lane) * lanes_.many() + local; }

  void send_parts() {
    for (int i = 0; i < lanes_.many(); ++i) {
      const int lane = (lanes_.local() + i) % lanes_.many(), cell = cell_number(lane, lanes_.local());
      if (lanes_.is_mine(lane)) continue;
      b.send(input(slices_.begin(lane)), lanes_.holder(lanes_.node(), lane), times(cell, cell_), slices_.bytes(lane),
             slot_of(cell));
    }
  }

  /// Reduces in rank order.
  Place add_parts(int lane) {
    const std::uint64_t bytes = slices_.bytes(lane);
    const auto part = [&](int local) {
      return local == lanes_.local() ? input(slices_.begin(lane)) : scratch(times(cell_number(lane, local), cell_));
    };
    for (int local = 0; local < lanes_.my_ranks(); ++local)
      if (local != lanes_.local()) b.receive(lanes_.rank_of_local(local), slot_of(cell_number(lane, local)), bytes);
    if (lanes_.my_ranks() == 1) return part(0);
    // The sum is built in the first part of another rank, since this rank's part is in the read-only input.
    const int into = lanes_.local() == 0 ? 1 : 0;
    if (into == 1) b.reduce_before(part(0), part(1), bytes);
    for (int local = into + 1; local < lanes_.my_ranks(); ++local) b.reduce(part(local), part(into), bytes);
    return part(into);
  }

  void take_out(int lane, Place sum) {
    b.copy(sum, output(slices_.begin(lane)), slices_.bytes(lane));
    b.scale(output(slices_.begin(lane)), slices_.bytes(lane));
  }

  void hand_out(int lane) {
    const std::uint64_t begin = slices_.begin(lane), bytes = slices_.bytes(lane);
    for (int i = 1; i < lanes_.my_ranks(); ++i) {
      const int other = lanes_.rank_of_local((lanes_.local() + i) % lanes_.my_ranks());
      b.send(output(begin), other, after_ + begin, bytes, first_after_ + slot_of(lane));
    }
  }

  Builder& b;
  Lane way_;
  Lanes lanes_;
  Slices slices_;
  std::uint64_t cell_;
  ScratchSize needs_;
  std::uint64_t between_ = 0, after_ = 0;
  std::uint32_t first_between_ = 0, first_after_ = 0;
};

/// Each lane gathers the blocks of its ranks; then the ranks of a node exchange the blocks of their lanes.
class Allgather {
 public:
  explicit Allgather(Builder& builder)
      : b(builder), lanes_(b.shape, b.rank), blocks_(b.size, b.call), counts_(static_cast<std::size_t>(lanes_.many())) {
    std::uint64_t largest = 0;
    for (int lane = 0; lane < lanes_.many(); ++lane) {
      for (int node = 0; node < lanes_.nodes(); ++node)
        counts_[index(lane)].push_back(lane < lanes_.ranks_of(node) ? blocks_.bytes(lanes_.first_of(node) + lane) : 0);
      largest = std::max(largest, blocks_of(lane).total());
    }
    needs_ = allgather_needs(lanes_.nodes(), largest);
    between_ = b.take_scratch(times(lanes_.turns(), needs_.scratch));
    after_ = b.take_scratch(times(lanes_.many(), needs_.scratch));
  }

  void build() {
    for (int lane = lanes_.local(); lane < lanes_.many(); lane += lanes_.my_ranks()) gather(lane);
    for (int i = 0; i < lanes_.many(); ++i) {
      const int lane = (lanes_.local() + i) % lanes_.many();
      if (lanes_.is_mine(lane)) continue;
      b.receive(lanes_.holder(lanes_.node(), lane), slot(lane), blocks_of(lane).total());
      copy_out(lane, scratch(after_ + times(lane, needs_.scratch)));
    }
    b.finish();
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::uint32_t slot(int lane) const { return slot_of(lanes_.turns()) * needs_.slots + slot_of(lane); }
  /// One block per node, from node `first` on. For a last node with fewer ranks, some lanes have an empty block.
  Blocks blocks_of(int lane, int first = 0) const {
    return Blocks(lanes_.nodes(), counts_[index(lane)], {}, 0, 1, first);
  }

  void gather(int lane) {
    const Group group = lanes_.group(lane, between_, needs_.scratch, 0, needs_.slots);
    Exchange x(b, group);
    const Place all = allgather_part(x, input(), blocks_of(lane));
    for (int i = 1; i < lanes_.my_ranks(); ++i) {
      const int other = lanes_.rank_of_local((lanes_.local() + i) % lanes_.my_ranks());
      b.send(all, other, after_ + times(lane, needs_.scratch), blocks_of(lane).total(), slot(lane));
    }
    copy_out(lane, all);
  }

  void copy_out(int lane, Place all) {
    const Blocks turned = blocks_of(lane, lanes_.node());
    for (int node = 0; node < lanes_.nodes(); ++node)
      if (turned.bytes(node) > 0)
        b.copy(all + turned.packed(node), output(blocks_.place(lanes_.first_of(node) + lane)), turned.bytes(node));
  }

  Builder& b;
  Lanes lanes_;
  Blocks blocks_;
  std::vector<std::vector<std::uint64_t>> counts_;  ///< counts_[lane][node], in bytes
  ScratchSize needs_;
  std::uint64_t between_ = 0, after_ = 0;
};

}  // namespace

void barrier_hierarchical(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Lanes lanes(shape, rank);
  const int leader = lanes.first_of(lanes.node());
  const std::uint32_t released = slot_of(lanes.many());
  if (rank != leader) {
    b.signal(leader, slot_of(lanes.local()));
    b.wait(leader, released);
    b.finish();
    return;
  }
  for (int local = 1; local < lanes.my_ranks(); ++local) b.wait(lanes.rank_of_local(local), slot_of(local));
  std::uint32_t round = released + 1;
  for (int distance = 1; distance < lanes.nodes(); distance *= 2, ++round) {
    b.signal(lanes.first_of((lanes.node() + distance) % lanes.nodes()), round);
    b.wait(lanes.first_of((lanes.node() - distance + lanes.nodes()) % lanes.nodes()), round);
  }
  for (int local = 1; local < lanes.my_ranks(); ++local) b.signal(lanes.rank_of_local(local), released);
  b.finish();
}

void allreduce_hierarchical(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  HierarchicalAllreduce(b, HierarchicalAllreduce::Lane::doubles).build();
}

void allreduce_hierarchical_halving(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  HierarchicalAllreduce(b, HierarchicalAllreduce::Lane::halves).build();
}

/// The root sends a slice to each rank of its node, the lanes broadcast it to the other nodes, and the ranks of each
/// node exchange their slices. A rank receives each slice once, in one of the three phases. In all of them the slice
/// has the same place in scratch and the same slot.
void broadcast_hierarchical(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Lanes lanes(shape, rank);
  const Slices slices(call.count, lanes.many(), call.element_bytes);
  const int home = shape.node_of(call.root);
  const bool is_root = rank == call.root;
  if (!is_root) b.take_scratch(slices.begin(lanes.many()));
  for (int lane = 0; is_root && lane < lanes.many(); ++lane)
    if (!lanes.is_mine(lane))
      b.send(input(slices.begin(lane)), lanes.holder(home, lane), slices.begin(lane), slices.bytes(lane),
             slot_of(lane));
  for (int lane = lanes.local(); lane < lanes.many(); lane += lanes.my_ranks()) {
    const std::uint64_t begin = slices.begin(lane), bytes = slices.bytes(lane);
    if (!is_root && lanes.node() == home) b.receive(call.root, slot_of(lane), bytes);
    const Group group{lanes.nodes(), lanes.node(), [&](int node) {
                        return Member{lanes.holder(node, lane), begin, slot_of(lane)};
                      }};
    Exchange x(b, group);
    const Place slice = broadcast_part(x, home, is_root ? input(begin) : scratch(begin), bytes);
    for (int i = 1; i < lanes.my_ranks(); ++i) {
      const int other = lanes.rank_of_local((lanes.local() + i) % lanes.my_ranks());
      if (other != call.root) b.send(slice, other, begin, bytes, slot_of(lane));
    }
    b.copy(slice, output(begin), bytes);
  }
  for (int lane = 0; lane < lanes.many(); ++lane) {
    if (lanes.is_mine(lane)) continue;
    const std::uint64_t begin = slices.begin(lane), bytes = slices.bytes(lane);
    if (!is_root) b.receive(lanes.holder(lanes.node(), lane), slot_of(lane), bytes);
    b.copy(is_root ? input(begin) : scratch(begin), output(begin), bytes);
  }
  b.finish();
}

void allgather_hierarchical(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Allgather(b).build();
}

/// Lanes as rings: a rank forwards each block on arrival, to the next node and to the ranks of its own node. Each rank
/// receives each block once; each block has its own place in scratch and its own slot. For a last node with fewer
/// ranks, some lanes have no block.
void allgather_hierarchical_ring(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Lanes lanes(shape, rank);
  const Blocks blocks(b.size, call);
  const int nodes = lanes.nodes(), before = (lanes.node() + nodes - 1) % nodes, after = (lanes.node() + 1) % nodes;
  b.take_scratch(blocks.total());
  b.need_slots(slot_of(b.size));
  const auto send = [&](Place from, int block, int to) {
    b.send(from, to, blocks.packed(block), blocks.bytes(block), slot_of(block));
  };
  const auto receive = [&](int block, int from) {
    b.receive(from, slot_of(block), blocks.bytes(block));
    return scratch(blocks.packed(block));
  };
  /// Calls each(block, node) for the blocks of a lane, from this node's on, against the direction of the ring.
  const auto go_round = [&](int lane, const auto& each) {
    for (int i = 0; i < nodes; ++i)
      if (const int node = (lanes.node() + nodes - i) % nodes; lane < lanes.ranks_of(node))
        each(lanes.first_of(node) + lane, node);
  };
  for (int lane = lanes.local(); lane < lanes.many(); lane += lanes.my_ranks()) {
    go_round(lane, [&](int block, int node) {
      const Place place = block == rank ? input() : receive(block, lanes.holder(before, lane));
      if (node != after) send(place, block, lanes.holder(after, lane));
      for (int i = 1; i < lanes.my_ranks(); ++i)
        send(place, block, lanes.rank_of_local((lanes.local() + i) % lanes.my_ranks()));
      b.copy(place, output(blocks.place(block)), blocks.bytes(block));
    });
  }
  for (int i = 1; i < lanes.many(); ++i) {
    const int lane = (lanes.local() + i) % lanes.many();
    if (lanes.is_mine(lane)) continue;
    go_round(lane, [&](int block, int) {
      b.copy(receive(block, lanes.holder(lanes.node(), lane)), output(blocks.place(block)), blocks.bytes(block));
    });
  }
  b.finish();
}

}  // namespace hmc::collectives::schedule
