// NodeLink: the ranks of one node pass memory and descriptors to each other.
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
  std::uint64_t number = 0;  ///< the first member drew it (next_share) and sent it to the others
};

/// A NodeLink connects the ranks of one node. The proof: each rank received the node page and read its nonce. Cold
/// path: throws hmc::Error.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  /// World ranks on this node, ascending.
  virtual const std::vector<int>& members() const noexcept = 0;
  /// Collective over the node: each rank passes a segment or null and gets those of all ranks, in the order of
  /// members(). Ranks of one process share one mapping; other ranks map the memfd.
  virtual std::vector<std::shared_ptr<Segment>> share(const std::shared_ptr<Segment>& mine, Deadline deadline) = 0;
  /// The same over a group, in the order of its members.
  virtual std::vector<std::shared_ptr<Segment>> share_among(const ShareGroup& group,
                                                            const std::shared_ptr<Segment>& mine,
                                                            Deadline deadline) = 0;
  /// As share_among, for descriptors of any kind; they aren't mapped. The result is empty for:
  /// - a member that passed none
  /// - this rank
  /// - all members, if the ranks are one process
  virtual std::vector<UniqueFd> pass(const ShareGroup& group, const UniqueFd& mine, Deadline deadline) {
    (void)mine, (void)deadline;
    return std::vector<UniqueFd>(group.members.size());
  }
  /// Chooses the cheapest call for these members.
  std::vector<std::shared_ptr<Segment>> share_within(const ShareGroup& group, const std::shared_ptr<Segment>& mine,
                                                     Deadline deadline) {
    if (group.members.size() == 1) return {mine};
    return group.members.size() == members().size() ? share(mine, deadline) : share_among(group, mine, deadline);
  }
  /// A new number at each call. With the caller's rank it identifies one share of one group among all in progress.
  std::uint64_t next_share() noexcept { return ++shares_drawn_; }

 protected:
  /// The top bit is set: no round of the whole node has this number.
  static std::uint64_t round_of(const ShareGroup& group) noexcept {
    constexpr unsigned rank_bits = 24;
    return std::uint64_t{1} << 63 | group.number << rank_bits | static_cast<std::uint32_t>(group.members.front());
  }

 private:
  std::uint64_t shares_drawn_ = 0;
};

}  // namespace hmc::base
