// NodeLink: how the ranks of one node hand memory to each other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/segment.hpp"

namespace hmc::base {

/// Some ranks of a node that hand memory to each other without the rest.
struct ShareGroup {
  std::vector<int> members;  ///< world ranks, ascending, the caller's among them
  std::uint64_t number = 0;  ///< which the first of them drew (next_share) and told the others
};

/// Ranks on one node are those that a NodeLink connects: that they could be handed the node page and
/// read its nonce is the proof. Cold path: throws hmc::Error.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  /// World ranks on my node, ascending.
  virtual const std::vector<int>& members() const noexcept = 0;
  /// Collective over the node: everyone gives a segment or null and gets what each gave, in the order
  /// of members(). Ranks of one process get the very same mapping, others map the memfd.
  virtual std::vector<std::shared_ptr<Segment>> share(const std::shared_ptr<Segment>& mine, Deadline deadline) = 0;
  /// The same over a group, in the order of its members.
  virtual std::vector<std::shared_ptr<Segment>> share_among(const ShareGroup& group,
                                                            const std::shared_ptr<Segment>& mine,
                                                            Deadline deadline) = 0;
  /// As share_among, with descriptors of any kind, none of which is mapped. What comes is empty for a member that
  /// gave none, for this rank itself, and everywhere on a link that passes none (its ranks are one process).
  virtual std::vector<UniqueFd> pass(const ShareGroup& group, const UniqueFd& mine, Deadline deadline) {
    (void)mine, (void)deadline;
    return std::vector<UniqueFd>(group.members.size());
  }
  /// Whichever is the least for these members.
  std::vector<std::shared_ptr<Segment>> share_within(const ShareGroup& group, const std::shared_ptr<Segment>& mine,
                                                     Deadline deadline) {
    if (group.members.size() == 1) return {mine};
    return group.members.size() == members().size() ? share(mine, deadline) : share_among(group, mine, deadline);
  }
  /// New at each call: with the drawer's rank it names one share of one group, whatever else is under way.
  std::uint64_t next_share() noexcept { return ++shares_drawn_; }

 protected:
  /// No round of the whole node has this number.
  static std::uint64_t round_of(const ShareGroup& group) noexcept {
    constexpr unsigned rank_bits = 24;
    return std::uint64_t{1} << 63 | group.number << rank_bits | static_cast<std::uint32_t>(group.members.front());
  }

 private:
  std::uint64_t shares_drawn_ = 0;
};

}  // namespace hmc::base
