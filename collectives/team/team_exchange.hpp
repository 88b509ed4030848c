// TeamExchange: exchanges between a team's ranks, by the team's schedules, while teams and windows are created and
// closed.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/network/schedule_team.hpp"
#include "runtime/base/exchange.hpp"

namespace hmc::collectives {

/// Takes O(log N) steps and doesn't use the control plane. Ignores `deadline`: the runtime's timeout applies to each
/// wait. Throws Error. The team and its schedules must outlive this object.
class TeamExchange final : public base::Exchange {
 public:
  TeamExchange(const rma::TeamCore& team, ScheduleTeam& schedules) : team_(team), schedules_(schedules) {}
  int rank() const noexcept override { return team_.rank(); }
  int size() const noexcept override { return team_.size(); }
  std::vector<base::Bytes> allgather(base::ByteView mine, base::Deadline deadline) override;
  void barrier(base::Deadline deadline) override;
  bool has_failed() const noexcept override { return !schedules_.failure().ok(); }
  bool failed_before() const noexcept override { return schedules_.failed_before(); }

 private:
  void run(const CollectiveArgs& args);
  std::vector<base::Bytes> gather_long(base::ByteView mine, const std::vector<std::uint64_t>& lengths);

  const rma::TeamCore& team_;
  ScheduleTeam& schedules_;
};

/// The exchange of a team that has no schedules yet. It uses the parent's exchange: every rank of the parent runs the
/// same rounds and uses the data of its own group. The number of rounds is fixed, so that all ranks of the parent run
/// the same rounds even if one group fails or a rank is in no group.
class GroupExchange final : public base::Exchange {
 public:
  /// `group`: ranks of the parent; empty for a rank in no group.
  GroupExchange(TeamExchange parent, std::vector<int> group, int rank, int rounds)
      : parent_(parent), group_(std::move(group)), rank_(rank), left_(rounds) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(group_.size()); }
  std::vector<base::Bytes> allgather(base::ByteView mine, base::Deadline deadline) override;
  void barrier(base::Deadline deadline) override { (void)allgather({}, deadline); }
  /// Runs the remaining rounds.
  void finish(base::Deadline deadline) {
    while (left_ > 0) barrier(deadline);
  }

 private:
  TeamExchange parent_;
  std::vector<int> group_;
  int rank_;
  int left_;
};

}  // namespace hmc::collectives
