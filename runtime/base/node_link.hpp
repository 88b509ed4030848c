// NodeLink: passes shared memory and file descriptors between the ranks of one node.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/segment.hpp"

namespace hmc::base {

/// A subset of a node's ranks that shares memory.
struct ShareGroup {
  std::vector<int> members;  ///< world ranks, ascending, the caller's among them
  std::uint64_t number = 0;  ///< the first member generates it (next_share) and sends it to the others
};

/// Connects the ranks of one node. Each rank has proved that it is on the node: it mapped the node page and read its
/// nonce. Cold path: throws hmc::Error.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  /// World ranks on this node, ascending.
  virtual const std::vector<int>& members() const noexcept = 0;
  /// Collective over the node: each rank passes a segment or null and receives the segments of all ranks, in the order
  /// of members(). Ranks of one process share one mapping; other ranks map the memfd.
  virtual std::vector<std::shared_ptr<Segment>> share(const std::shared_ptr<Segment>& mine, Deadline deadline) = 0;
  /// As share(), but collective over a group. The result is in the order of the group's members.
  virtual std::vector<std::shared_ptr<Segment>> share_among(const ShareGroup& group,
                                                            const std::shared_ptr<Segment>& mine,
                                                            Deadline deadline) = 0;
  /// As share_among(), for descriptors of any kind, which aren't mapped. The entry is empty for:
  /// - a member that passed no descriptor
  /// - this rank
  /// - all members, if all ranks are in one process
  virtual std::vector<UniqueFd> pass(const ShareGroup& group, const UniqueFd& mine, Deadline deadline) {
    (void)mine, (void)deadline;
    return std::vector<UniqueFd>(group.members.size());
  }
  /// Uses the cheapest exchange for the group: none for one member, share() for all ranks of the node.
  std::vector<std::shared_ptr<Segment>> share_within(const ShareGroup& group, const std::shared_ptr<Segment>& mine,
                                                     Deadline deadline) {
    if (group.members.size() == 1) return {mine};
    return group.members.size() == members().size() ? share(mine, deadline) : share_among(group, mine, deadline);
  }
  /// Returns a new number at each call. The caller's rank and this number identify one exchange among all in progress.
  std::uint64_t next_share() noexcept { return ++shares_drawn_; }

 protected:
  /// The top bit is set, so no round of the whole node has the same number.
  static std::uint64_t round_of(const ShareGroup& group) noexcept {
    constexpr unsigned rank_bits = 24;
    return std::uint64_t{1} << 63 | group.number << rank_bits | static_cast<std::uint32_t>(group.members.front());
  }

 private:
  std::uint64_t shares_drawn_ = 0;
};

}  // namespace hmc::base
