// Group: the ranks that execute a part of a collective among themselves: the whole team, the ranks of a node, or one
// rank of each node.
#pragma once

#include <functional>

#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

/// Where a member keeps the part's scratch and slots. Every member can compute it for every other.
struct Member {
  int rank = 0;
  std::uint64_t scratch = 0;  ///< where the part's scratch begins
  std::uint32_t slot = 0;     ///< the part's first slot
};

struct Group {
  int size = 1;
  int me = 0;  ///< this rank's number in the group
  std::function<Member(int)> member;

  int rank_of(int number) const { return member(number).rank; }
  Member self() const { return member(me); }
};

/// All ranks, with the same scratch and slots on each.
inline Group whole_team(const Builder& b, std::uint64_t scratch = 0, std::uint32_t slot = 0) {
  return {b.size, b.rank, [scratch, slot](int number) { return Member{number, scratch, slot}; }};
}

/// Writes messages within a group. Peers are member numbers; offsets and slots are relative to the part's.
class Exchange {
 public:
  Exchange(Builder& builder, const Group& group) : b(builder), group(group), self_(group.self()) {}

  void send(Place from, int number, std::uint64_t to, std::uint64_t bytes, std::uint32_t slot) {
    if (bytes == 0) return;
    const Member peer = group.member(number);
    b.put(from, peer.rank, peer.scratch + to, bytes, peer.slot + slot);
  }
  void receive(int number, std::uint32_t slot, std::uint64_t bytes) {
    if (bytes > 0) b.wait(group.rank_of(number), self_.slot + slot);
  }
  Place mine(std::uint64_t offset) const { return scratch(self_.scratch + offset); }

  Builder& b;
  const Group& group;

 private:
  Member self_;
};

}  // namespace hmc::collectives::schedule
