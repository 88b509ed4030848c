// The public Team without its collectives: properties, teams of a team, close.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/team/derive.hpp"

namespace hmc {

using collectives::open;
using collectives::TeamObject;

rma::TeamCore* Team::core() const noexcept { return object_.get(); }
int Team::rank() const noexcept { return object_ != nullptr ? object_->rank() : -1; }
int Team::size() const noexcept { return object_ != nullptr ? object_->size() : 0; }

int Team::world_rank(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Team::world_rank", fmt::format("there is no rank {} in a team of {}", rank, size()));
  return object_->world_rank(rank);
}

Team Team::split(int colour, int key) { return Team(collectives::split(open(object_, "split"), colour, key)); }
Team Team::subset(std::span<const int> ranks) { return Team(collectives::subset(open(object_, "subset"), ranks)); }
Team Team::duplicate() { return Team(collectives::duplicate(open(object_, "duplicate"))); }
Team Team::node_team() { return Team(collectives::node_team(open(object_, "node_team"))); }
Team Team::leaders() { return Team(collectives::leaders(open(object_, "leaders"))); }

namespace {

/// `team` keeps the old world until the end of the call, which may replace the handle that it was made with.
Team regrouped(std::shared_ptr<TeamObject> team, const char* operation, rma::Job::Regroup which, Timeout timeout) {
  base::require_timeout(timeout, operation);
  if (team == nullptr) throw Error(Code::closed, operation, "the team is empty: this rank isn't a member");
  rma::Fabric& fabric = team->fabric();
  if (fabric.is_forked()) base::throw_forked(operation, fabric.rank);
  if (!team->is_world())
    throw Error(Code::invalid_argument, operation, "only the world can be shrunk or grown",
                "split the new world again");
  if (fabric.closed() || fabric.job == nullptr)
    throw Error(Code::closed, operation, "the runtime is closed, or this world was replaced by shrink() or grow()");
  return fabric.job->regroup(which, fabric.resolve(timeout));
}

}  // namespace

Team Team::shrink() { return regrouped(object_, "shrink", rma::Job::Regroup::shrink, job_timeout); }
Team Team::grow(Timeout timeout) { return regrouped(object_, "grow", rma::Job::Regroup::grow, timeout); }

void Team::close() {
  TeamObject& team = open(object_, "Team::close");
  if (team.is_world()) throw Error(Code::invalid_argument, "Team::close", "the world is closed by Runtime::close");
  collectives::close(team);
}

void Counts::refuse(std::int64_t number, std::size_t index) {
  throw Error(Code::invalid_argument, "Counts", fmt::format("number {}, {}, is negative", index, number));
}

std::uint64_t Team::calls_by_algorithm(std::string_view collective, std::string_view algorithm) const {
  const TeamObject& team = open(object_, "calls_by_algorithm");
  for (const auto& each : collectives::schedule::algorithms())
    if (name_of(each.collective) == collective && each.name == algorithm) return team.schedules().taken(each);
  for (int i = 0; algorithm == "direct" && i < collective_count; ++i)
    if (const auto kind = static_cast<CollectiveKind>(i); name_of(kind) == collective) return team.direct_taken(kind);
  return 0;
}

}  // namespace hmc
