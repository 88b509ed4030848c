// TeamCore: an ordered set of ranks, and what windows and collectives keep for it.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// What the collectives keep per team. They define it; the team only holds it.
class CollectiveState {
 public:
  virtual ~CollectiveState() = default;
  /// Collective; completes and releases what it holds. Throws Error if it can't; returns what this rank hadn't heard of
  /// an earlier call of the world, which is closed all the same.
  virtual std::exception_ptr close() = 0;
};

/// Two numberings meet here: a team's ranks, which its windows and collectives take, and world ranks, in which the
/// fabric speaks: its wires, notes of waits, statuses and errors. world_rank() and rank_of() are the way between.
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
  /// Of this rank's teams; 0 is the world. Not equal on all ranks.
  std::uint64_t id() const noexcept { return id_; }

  int world_rank(int rank) const noexcept { return is_world() ? rank : members_[static_cast<std::size_t>(rank)]; }
  /// -1: it isn't a member.
  int rank_of(int world) const noexcept {
    if (is_world()) return world;
    const auto found = std::find(members_.begin(), members_.end(), world);
    return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
  }
  /// Whether load and store reach the windows of every member.
  bool all_direct() const noexcept;
  /// The team's ranks on this rank's node, by world rank.
  std::vector<int> local_ranks() const;

  Fabric& fabric() const noexcept { return *fabric_; }
  const std::shared_ptr<Fabric>& shared_fabric() const noexcept { return fabric_; }

  /// How its windows come to be: by the team's schedules. A team that has none yet: by its parent's, and the world by
  /// the job's control plane.
  base::Exchange& exchange() const noexcept {
    if (is_world()) return fabric_->world_exchange();
    return exchange_ != nullptr ? *exchange_ : *fabric_->exchange;
  }
  /// The world's is the fabric's, as are its windows.
  void use_exchange(std::shared_ptr<base::Exchange> exchange) noexcept {
    (is_world() ? fabric_->over_world : exchange_) = std::move(exchange);
  }

  bool closed = false;
  int open_windows = 0;  ///< the user's

 private:
  std::shared_ptr<Fabric> fabric_;
  std::vector<int> members_;  // empty for the world
  int rank_;
  std::uint64_t id_ = 0;
  std::shared_ptr<base::Exchange> exchange_;  // not the world's

 public:
  std::unique_ptr<CollectiveState> collectives;  ///< last, so it goes first: it uses all of the above
};

}  // namespace hmc::window
