// Two binary trees, each for one half of the vector, in segments. Inner ranks of one tree are leaves of the other, so
// all ranks send and receive about the same amount. A segment takes about 2 log2 N hops.
//
// A tree is in-order over the positions 0..n-1: the left subtree of a position has smaller positions, the right subtree
// has larger ones, so sums keep their order. The second tree is the first, mirrored (n even) or shifted by one (n odd).
#pragma once

#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {

/// Default size of a segment.
inline constexpr std::uint64_t tree_segment = 32 << 10;

/// No parent, or no child.
inline constexpr int no_member = -1;

/// An in-order tree: with positions counted from 1, the lowest bit of a position is its height.
struct InOrderTree {
  int count;

  int parent(int position) const {
    const int x = position + 1, bit = x & -x;
    if (x == top()) return no_member;
    const int wanted = (x ^ bit) | (bit << 1);
    return (wanted <= count ? wanted : x ^ bit) - 1;
  }
  int left(int position) const {
    const int x = position + 1, bit = x & -x;
    return bit > 1 ? x - bit / 2 - 1 : no_member;
  }
  int right(int position) const {
    const int x = position + 1;
    for (int bit = (x & -x) / 2; bit > 0; bit /= 2)
      if (x + bit <= count) return x + bit - 1;
    return no_member;
  }
  int top() const {
    int power = 1;
    while (power <= count / 2) power *= 2;
    return power;
  }
};

/// One of the two trees, over members 0..count-1.
struct PipelineTree {
  int count;
  enum { plain, mirrored, shifted } form = plain;

  int position(int member) const {
    return form == plain ? member : form == mirrored ? count - 1 - member : (member + 1) % count;
  }
  int member(int position) const {
    if (position == no_member) return no_member;
    return form == plain ? position : form == mirrored ? count - 1 - position : (position - 1 + count) % count;
  }
  InOrderTree tree() const { return {count}; }
  int parent(int me) const { return member(tree().parent(position(me))); }
  /// The child whose subtree comes before `me` in rank order, and the child whose subtree comes after. A shifted tree
  /// doesn't keep the order.
  int before(int me) const { return member(form == mirrored ? tree().right(position(me)) : tree().left(position(me))); }
  int after(int me) const { return member(form == mirrored ? tree().left(position(me)) : tree().right(position(me))); }
  int top() const { return member(tree().top() - 1); }
};

/// The halves of the vector and their segments. Segment i of tree t has the number 2 * i + t.
struct TreeHalves {
  explicit TreeHalves(const Call& call)
      : slices(call.count, 2, call.element_bytes),
        segments{Segments(slices.bytes(0), segment_size(call, tree_segment), call.element_bytes),
                 Segments(slices.bytes(1), segment_size(call, tree_segment), call.element_bytes)} {}

  std::uint32_t count() const { return std::max(segments[0].count(), segments[1].count()); }
  std::uint64_t begin(int tree, std::uint32_t i) const { return slices.begin(tree) + segments[tree].begin(i); }
  std::uint64_t bytes(int tree, std::uint32_t i) const { return segments[tree].bytes(i); }

  Slices slices;
  Segments segments[2];
};

inline PipelineTree second_tree(int count, bool keep_order) {
  return {count, count % 2 == 0 || keep_order ? PipelineTree::mirrored : PipelineTree::shifted};
}

/// The largest number of segments of one half.
inline std::uint32_t tree_segment_bound(const Call& call) {
  return segment_bound(Slices(call.count, 2, call.element_bytes).largest(), segment_size(call, tree_segment),
                       call.element_bytes);
}

}  // namespace hmc::collectives::schedule
