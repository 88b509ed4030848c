// Group: the ranks that execute a part of a schedule among themselves: the whole team, or a lane (one rank of each
// node).
#pragma once

#include <functional>

#include "collectives/schedule/builder.hpp"

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

}  // namespace hmc::collectives::schedule
