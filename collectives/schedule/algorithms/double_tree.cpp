// Two binary trees, each for one half of the vector, in segments: broadcast, and allreduce (up, then down). Inner
// ranks of one tree are leaves of the other, so all ranks send and receive about the same amount. A segment takes
// about 2 log2 N hops.
//
// A tree is in-order over the positions 0..n-1: the left subtree of a position has smaller positions, the right subtree
// has larger ones, so sums keep their order. The second tree is the first, mirrored (n even) or shifted by one (n odd).
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

constexpr int none = -1;

/// An in-order tree: with positions counted from 1, the lowest bit of a position is its height.
struct InOrder {
  int many;

  int parent(int position) const {
    const int x = position + 1, bit = x & -x;
    if (x == top()) return none;
    const int wanted = (x ^ bit) | (bit << 1);
    return (wanted <= many ? wanted : x ^ bit) - 1;
  }
  int left(int position) const {
    const int x = position + 1, bit = x & -x;
    return bit > 1 ? x - bit / 2 - 1 : none;
  }
  int right(int position) const {
    const int x = position + 1;
    for (int bit = (x & -x) / 2; bit > 0; bit /= 2)
      if (x + bit <= many) return x + bit - 1;
    return none;
  }
  int top() const {
    int power = 1;
    while (power <= many / 2) power *= 2;
    return power;
  }
};

/// One of the two trees, over members 0..many-1.
struct Tree {
  int many;
  enum { plain, mirrored, shifted } form = plain;

  int position(int member) const {
    return form == plain ? member : form == mirrored ? many - 1 - member : (member + 1) % many;
  }
  int member(int position) const {
    if (position == none) return none;
    return form == plain ? position : form == mirrored ? many - 1 - position : (position - 1 + many) % many;
  }
  InOrder tree() const { return {many}; }
  int parent(int me) const { return member(tree().parent(position(me))); }
  /// The child whose subtree comes before `me` in rank order, and the child whose subtree comes after. A shifted tree
  /// doesn't keep the order.
  int before(int me) const { return member(form == mirrored ? tree().right(position(me)) : tree().left(position(me))); }
  int after(int me) const { return member(form == mirrored ? tree().left(position(me)) : tree().right(position(me))); }
  int top() const { return member(tree().top() - 1); }
};

std::uint64_t wanted_segment(const Call& call) { return call.segment_bytes > 0 ? call.segment_bytes : tree_segment; }

/// The halves of the vector and their segments. Segment i of tree t has the number 2 * i + t.
struct Halves {
  Halves(const Call& call)
      : slices(call.count, 2, call.element_bytes),
        cuts{Segments(slices.bytes(0), wanted_segment(call), call.element_bytes),
             Segments(slices.bytes(1), wanted_segment(call), call.element_bytes)} {}

  std::uint32_t many() const { return std::max(cuts[0].many(), cuts[1].many()); }
  std::uint64_t begin(int tree, std::uint32_t i) const { return slices.begin(tree) + cuts[tree].begin(i); }
  std::uint64_t bytes(int tree, std::uint32_t i) const { return cuts[tree].bytes(i); }

  Slices slices;
  Segments cuts[2];
};

Tree second_tree(int many, bool keep_order) {
  return {many, many % 2 == 0 || keep_order ? Tree::mirrored : Tree::shifted};
}

/// Reduces up to the root and broadcasts down again, segment by segment.
class DoubleTreeAllreduce {
 public:
  explicit DoubleTreeAllreduce(Builder& builder)
      : b(builder),
        halves_(b.call),
        trees_{{b.size, Tree::plain}, second_tree(b.size, !b.call.commutative)},
        area_(line_up(b.call.count * b.call.element_bytes)) {
    b.take_scratch(3 * area_);
  }

  void build() {
    // A segment goes down 2 log2 N iterations after it went up, so the pipeline stays full.
    const auto ahead = static_cast<std::uint32_t>(2 * rounds_of(b.size));
    for (std::uint32_t i = 0; i < halves_.many() + ahead; ++i)
      for (int tree = 0; tree < 2; ++tree) {
        up(tree, i);
        if (i >= ahead) down(tree, i - ahead);
      }
    b.finish();
  }

 private:
  /// Received messages: the sum of the ranks before this one, of those after it, and the result.
  enum Arrival { from_before, from_after, result };
  Place place(Arrival arrival, std::uint64_t begin) const { return scratch(at(arrival, begin)); }
  std::uint64_t at(Arrival arrival, std::uint64_t begin) const { return arrival * area_ + begin; }
  std::uint32_t slot(Arrival arrival, int tree, std::uint32_t i) const {
    return (2 * i + static_cast<std::uint32_t>(tree)) * 3 + arrival;
  }

  void up(int number, std::uint32_t i) {
    const Tree& tree = trees_[number];
    const std::uint64_t begin = halves_.begin(number, i), bytes = halves_.bytes(number, i);
    const int before = tree.before(b.rank), after = tree.after(b.rank), parent = tree.parent(b.rank);
    Place sum = input(begin);
    if (before != none) {
      b.receive(before, slot(from_before, number, i), bytes);
      b.reduce(sum, place(from_before, begin), bytes);
      sum = place(from_before, begin);
    }
    if (after != none) {
      b.receive(after, slot(from_after, number, i), bytes);
      b.reduce_before(sum, place(from_after, begin), bytes);
      sum = place(from_after, begin);
    }
    if (parent != none) {
      const Arrival arrival = tree.before(parent) == b.rank ? from_before : from_after;
      b.send(sum, parent, at(arrival, begin), bytes, slot(arrival, number, i));
      return;
    }
    b.copy(sum, output(begin), bytes);
    b.scale(output(begin), bytes);
    hand_down(number, i, output(begin));
  }

  void down(int number, std::uint32_t i) {
    const std::uint64_t begin = halves_.begin(number, i), bytes = halves_.bytes(number, i);
    const int parent = trees_[number].parent(b.rank);
    if (parent == none) return;
    b.receive(parent, slot(result, number, i), bytes);
    hand_down(number, i, place(result, begin));
    b.copy(place(result, begin), output(begin), bytes);
  }

  void hand_down(int number, std::uint32_t i, Place from) {
    const std::uint64_t begin = halves_.begin(number, i);
    for (const int child : {trees_[number].before(b.rank), trees_[number].after(b.rank)})
      if (child != none) b.send(from, child, at(result, begin), halves_.bytes(number, i), slot(result, number, i));
  }

  Builder& b;
  Halves halves_;
  Tree trees_[2];
  std::uint64_t area_;
};

}  // namespace

void allreduce_double_tree(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  DoubleTreeAllreduce(b).build();
}

void broadcast_double_tree(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Halves halves(call);
  const bool is_root = rank == call.root;
  if (!is_root) b.take_scratch(call.count * call.element_bytes);
  // The trees consist of the other ranks; the root sends to the roots of both trees.
  const int others = b.size - 1, me = (rank - call.root - 1 + b.size) % b.size;
  const Tree trees[2] = {{others, Tree::plain}, second_tree(others, false)};
  const auto rank_of = [&](int member) { return (member + call.root + 1) % b.size; };
  for (std::uint32_t i = 0; others > 0 && i < halves.many(); ++i)
    for (int t = 0; t < 2; ++t) {
      const std::uint64_t begin = halves.begin(t, i), bytes = halves.bytes(t, i);
      const std::uint32_t slot = 2 * i + static_cast<std::uint32_t>(t);
      if (is_root) {
        b.send(input(begin), rank_of(trees[t].top()), begin, bytes, slot);
        continue;
      }
      const int parent = trees[t].parent(me);
      b.receive(parent == none ? call.root : rank_of(parent), slot, bytes);
      for (const int child : {trees[t].before(me), trees[t].after(me)})
        if (child != none) b.send(scratch(begin), rank_of(child), begin, bytes, slot);
      b.copy(scratch(begin), output(begin), bytes);
    }
  if (is_root) b.copy(input(), output(), call.count * call.element_bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
