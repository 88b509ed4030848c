// TeamCore: an ordered set of ranks, as windows and messages see a team.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/rma/fabric.hpp"
#include "runtime/rma/messages.hpp"

namespace hmc::rma {

/// The base of the collectives' TeamObject. world_rank() and rank_of() convert between team ranks, which windows and
/// collectives use, and world ranks, which wires, wait notes, statuses and errors use.
class TeamCore : public std::enable_shared_from_this<TeamCore> {
 public:
  /// The world: a rank is its own world rank.
  explicit TeamCore(std::shared_ptr<Fabric> fabric) : fabric_(std::move(fabric)), rank_(fabric_->rank) {}
  /// `members` are world ranks; this rank is members[rank].
  TeamCore(std::shared_ptr<Fabric> fabric, std::vector<int> members, int rank)
      : fabric_(std::move(fabric)), members_(std::move(members)), rank_(rank), id_(++fabric_->last_team) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return is_world() ? fabric_->size : static_cast<int>(members_.size()); }
  bool is_world() const noexcept { return id_ == 0; }
  /// Unique among this rank's teams; 0 is the world. Not equal on all ranks.
  std::uint64_t id() const noexcept { return id_; }

  int world_rank(int rank) const noexcept { return is_world() ? rank : members_[static_cast<std::size_t>(rank)]; }
  /// -1: not a member.
  int rank_of(int world) const noexcept {
    if (is_world()) return world;
    const auto found = std::find(members_.begin(), members_.end(), world);
    return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
  }
  /// True if this rank can load and store in the windows of every member.
  bool all_direct() const noexcept {
    for (int rank = 0; rank < size(); ++rank)
      if (!fabric_->peer(world_rank(rank)).path.direct) return false;
    return true;
  }
  /// The team's ranks on this rank's node, by world rank.
  std::vector<int> local_ranks() const {
    std::vector<int> ranks;
    for (const int world : fabric_->node_link->members())
      if (const int rank = rank_of(world); rank >= 0) ranks.push_back(rank);
    return ranks;
  }

  Fabric& fabric() const noexcept { return *fabric_; }
  const std::shared_ptr<Fabric>& shared_fabric() const noexcept { return fabric_; }

  /// The exchange for the creation of this team's windows. It uses the team's schedules; during the team's creation it
  /// uses the parent's schedules. The world uses the control plane while it has no schedules.
  base::Exchange& exchange() const noexcept {
    if (is_world()) return fabric_->world_exchange();
    return exchange_ != nullptr ? *exchange_ : *fabric_->exchange;
  }
  /// The fabric stores the world's exchange.
  void use_exchange(std::shared_ptr<base::Exchange> exchange) noexcept {
    (is_world() ? fabric_->over_world : exchange_) = std::move(exchange);
  }

  bool closed = false;
  /// Equal on all ranks of the team, and different from those of each rank's other teams. Set when its engines are
  /// created.
  std::uint32_t agreed_id = 0;
  int open_windows = 0;  ///< windows of the user

 private:
  std::shared_ptr<Fabric> fabric_;
  std::vector<int> members_;  // empty for the world
  int rank_;
  std::uint64_t id_ = 0;
  std::shared_ptr<base::Exchange> exchange_;  // null for the world
};

}  // namespace hmc::rma
