// The public Team: each call checks its arguments, stores them in a CollectiveArgs, and passes that to a driver.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include <utility>

#include "collectives/dispatch/dispatch.hpp"
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/team/derive.hpp"

namespace hmc {

using collectives::CollectiveArgs;
using collectives::OpenTeam;
using collectives::schedule::Collective;

int Team::rank() const noexcept { return core_ != nullptr ? core_->rank() : -1; }
int Team::size() const noexcept { return core_ != nullptr ? core_->size() : 0; }

int Team::world_rank(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(Code::bad_rank, "Team::world_rank", fmt::format("there is no rank {} in a team of {}", rank, size()));
  return core_->world_rank(rank);
}

Team Team::split(int colour, int key) { return Team(collectives::split(OpenTeam(core_, "split"), colour, key)); }
Team Team::subset(std::span<const int> ranks) { return Team(collectives::subset(OpenTeam(core_, "subset"), ranks)); }
Team Team::duplicate() { return Team(collectives::duplicate(OpenTeam(core_, "duplicate"))); }
Team Team::node_team() { return Team(collectives::node_team(OpenTeam(core_, "node_team"))); }
Team Team::leaders() { return Team(collectives::leaders(OpenTeam(core_, "leaders"))); }

namespace {

Team regrouped(std::shared_ptr<rma::TeamCore> core, const char* operation, rma::Job::Regroup which, Timeout timeout) {
  base::require_timeout(timeout, operation);
  if (core == nullptr) throw Error(Code::closed, operation, "the team is empty: this rank isn't a member");
  rma::Fabric& fabric = core->fabric();
  if (fabric.is_forked()) base::throw_forked(operation, fabric.rank);
  if (!core->is_world())
    throw Error(Code::invalid_argument, operation, "only the world can be shrunk or grown",
                "split the new world again");
  if (fabric.closed() || fabric.job == nullptr)
    throw Error(Code::closed, operation, "the runtime is closed, or this world was replaced by shrink() or grow()");
  return Team(fabric.job->regroup(which, fabric.resolve(timeout)));
}

}  // namespace

Team Team::shrink() { return regrouped(core_, "shrink", rma::Job::Regroup::shrink, job_timeout); }
Team Team::grow(Timeout timeout) { return regrouped(core_, "grow", rma::Job::Regroup::grow, timeout); }

void Team::close() {
  const OpenTeam team(core_, "Team::close");
  if (core_->is_world()) throw Error(Code::invalid_argument, "Team::close", "the world is closed by Runtime::close");
  collectives::close(team);
}

namespace {

[[gnu::always_inline]] inline void require_length(const char* operation, const char* what, std::size_t got, bool enough,
                                                  std::size_t needed) {
  if (!enough) [[unlikely]]
    throw Error(Code::invalid_argument, operation, fmt::format("{} has {} elements; it needs {}", what, got, needed));
}

}  // namespace

void Team::fit_equal(const char* operation, std::size_t in, std::size_t out, int root) const {
  if (root < 0 || root == rank()) require_length(operation, "the output", out, out == in, in);
}

void Team::fit_blocks(const char* operation, std::size_t block, std::size_t all, int root) const {
  const std::size_t needed = block * static_cast<std::size_t>(size());
  if (root < 0 || root == rank()) require_length(operation, "the range of all blocks", all, all == needed, needed);
}

std::size_t Team::fit_all_blocks(const char* operation, std::size_t in, std::size_t out) const {
  const std::size_t ranks = static_cast<std::size_t>(size()), block = ranks > 0 ? in / ranks : 0;
  require_length(operation, "the input", in, in == block * ranks, block * ranks);
  require_length(operation, "the output", out, out == in, in);
  return block;
}

void Team::fit_uneven(const char* operation, std::size_t block, std::size_t all, const Counts& counts,
                      const Counts& displacements, int root) const {
  const auto me = static_cast<std::size_t>(rank());
  if (me < counts.size())
    require_length(operation, "the range of this rank's block", block, block >= counts[me], counts[me]);
  if (root < 0 || root == rank()) fit_reach(operation, all, counts, displacements);
}

/// The call itself checks that there is a count and a displacement for each rank.
void Team::fit_reach(const char* operation, std::size_t all, const Counts& counts, const Counts& displacements) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t begin = i < displacements.size() ? displacements[i] : next;
    const bool overflows = __builtin_add_overflow(begin, counts[i], &next);
    if (counts[i] > 0) require_length(operation, "the range of all blocks", all, !overflows && next <= all, next);
  }
}

void Counts::refuse(std::int64_t number, std::size_t index) {
  throw Error(Code::invalid_argument, "Counts", fmt::format("number {}, {}, is negative", index, number));
}

void Team::barrier() {
  const OpenTeam team(core_, "barrier");
  if (const base::Status status = core_->fabric().flush_wires(base::Activity::barrier); !status.ok()) [[unlikely]] {
    // If a rank of this team has died or aborted the job, the team's reports may contain the cause.
    const bool is_lost = status.code == Code::peer_failed || status.code == Code::aborted;
    if (is_lost && (core_->rank_of(status.peer) >= 0 || !core_->fabric().waiter.page().aborted().ok()))
      throw_node_failure(team, status, collectives::barrier_args());
    rma::throw_status(core_->fabric(), status, {"barrier"});
  }
  static constexpr CollectiveArgs args = collectives::barrier_args();
  run_on_host(team, args);
}

// ---- blocking

void Team::broadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "broadcast");
  run(team, collectives::broadcast_args(team.core, data, bytes, root));
}
void Team::gather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "gather");
  run(team, collectives::gather_args(team.core, in, out, bytes, root));
}
void Team::gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                   std::size_t element) {
  const OpenTeam team(core_, "gatherv");
  run(team, collectives::gatherv_args(team.core, in, out, {counts, displacements}, root, element));
}
void Team::scatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "scatter");
  run(team, collectives::scatter_args(team.core, in, out, bytes, root));
}
void Team::scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                    std::size_t element) {
  const OpenTeam team(core_, "scatterv");
  run(team, collectives::scatterv_args(team.core, in, out, {counts, displacements}, root, element));
}
void Team::allgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "allgather");
  run(team, collectives::allgather_args(team.core, in, out, bytes));
}
void Team::allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements,
                      std::size_t element) {
  const OpenTeam team(core_, "allgatherv");
  run(team, collectives::allgatherv_args(team.core, in, out, {counts, displacements}, element));
}
void Team::alltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "alltoall");
  run(team, collectives::alltoall_args(team.core, in, out, bytes));
}
void Team::alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                     const Counts& receive_counts, const Counts& receive_displacements, std::size_t element) {
  const OpenTeam team(core_, "alltoallv");
  run_alltoallv(team, collectives::alltoallv_args(team.core, in, out, {counts, displacements},
                                                  {receive_counts, receive_displacements}, element));
}
void Team::reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "reduce");
  run(team, collectives::reduction_args(team.core, Collective::reduce, in, out, count, type, how, root));
}
void Team::allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "allreduce");
  run(team, collectives::allreduce_args(team.core, in, out, count, type, how));
}
void Team::reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "reduce_scatter");
  run(team, collectives::reduction_args(team.core, Collective::reduce_scatter, in, out, count, type, how));
}
void Team::reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "reduce_scatterv");
  run(team, collectives::reduce_scatterv_args(team.core, in, out, counts, type, how));
}
void Team::scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "scan");
  run(team, collectives::reduction_args(team.core, Collective::scan, in, out, count, type, how));
}
void Team::exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "exscan");
  run(team, collectives::reduction_args(team.core, Collective::exscan, in, out, count, type, how));
}

// ---- non-blocking

Request Team::ibarrier() {
  const OpenTeam team(core_, "ibarrier");
  return start(team, collectives::barrier_args(), "ibarrier");
}
Request Team::ibroadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "ibroadcast");
  return start(team, collectives::broadcast_args(team.core, data, bytes, root), "ibroadcast");
}
Request Team::igather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "igather");
  return start(team, collectives::gather_args(team.core, in, out, bytes, root), "igather");
}
Request Team::igatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                       std::size_t element) {
  const OpenTeam team(core_, "igatherv");
  return start(team, collectives::gatherv_args(team.core, in, out, {counts, displacements}, root, element), "igatherv");
}
Request Team::iscatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "iscatter");
  return start(team, collectives::scatter_args(team.core, in, out, bytes, root), "iscatter");
}
Request Team::iscatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                        std::size_t element) {
  const OpenTeam team(core_, "iscatterv");
  return start(team, collectives::scatterv_args(team.core, in, out, {counts, displacements}, root, element),
               "iscatterv");
}
Request Team::iallgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "iallgather");
  return start(team, collectives::allgather_args(team.core, in, out, bytes), "iallgather");
}
Request Team::iallgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements,
                          std::size_t element) {
  const OpenTeam team(core_, "iallgatherv");
  return start(team, collectives::allgatherv_args(team.core, in, out, {counts, displacements}, element), "iallgatherv");
}
Request Team::ialltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "ialltoall");
  return start(team, collectives::alltoall_args(team.core, in, out, bytes), "ialltoall");
}
Request Team::ialltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                         const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                         std::size_t element) {
  const OpenTeam team(core_, "ialltoallv");
  return start(team,
               collectives::alltoallv_args(team.core, in, out, {counts, displacements},
                                           {receive_counts, receive_displacements}, largest, element),
               "ialltoallv");
}
Request Team::ireduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "ireduce");
  return start(team, collectives::reduction_args(team.core, Collective::reduce, in, out, count, type, how, root),
               "ireduce");
}
Request Team::iallreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iallreduce");
  return start(team, collectives::allreduce_args(team.core, in, out, count, type, how), "iallreduce");
}
Request Team::ireduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "ireduce_scatter");
  return start(team, collectives::reduction_args(team.core, Collective::reduce_scatter, in, out, count, type, how),
               "ireduce_scatter");
}
Request Team::ireduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "ireduce_scatterv");
  return start(team, collectives::reduce_scatterv_args(team.core, in, out, counts, type, how), "ireduce_scatterv");
}
Request Team::iscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iscan");
  return start(team, collectives::reduction_args(team.core, Collective::scan, in, out, count, type, how), "iscan");
}
Request Team::iexscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iexscan");
  return start(team, collectives::reduction_args(team.core, Collective::exscan, in, out, count, type, how), "iexscan");
}

// ---- persistent

Plan Team::plan_barrier() {
  const OpenTeam team(core_, "plan_barrier");
  return Plan(core_, prepare(team, collectives::barrier_args(), "plan_barrier"), "plan_barrier");
}
Plan Team::plan_broadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_broadcast");
  return Plan(core_, prepare(team, collectives::broadcast_args(team.core, data, bytes, root), "plan_broadcast"),
              "plan_broadcast");
}
Plan Team::plan_gather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_gather");
  return Plan(core_, prepare(team, collectives::gather_args(team.core, in, out, bytes, root), "plan_gather"),
              "plan_gather");
}
Plan Team::plan_gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                        std::size_t element) {
  const OpenTeam team(core_, "plan_gatherv");
  return Plan(core_,
              prepare(team, collectives::gatherv_args(team.core, in, out, {counts, displacements}, root, element),
                      "plan_gatherv"),
              "plan_gatherv");
}
Plan Team::plan_scatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_scatter");
  return Plan(core_, prepare(team, collectives::scatter_args(team.core, in, out, bytes, root), "plan_scatter"),
              "plan_scatter");
}
Plan Team::plan_scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                         std::size_t element) {
  const OpenTeam team(core_, "plan_scatterv");
  return Plan(core_,
              prepare(team, collectives::scatterv_args(team.core, in, out, {counts, displacements}, root, element),
                      "plan_scatterv"),
              "plan_scatterv");
}
Plan Team::plan_allgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "plan_allgather");
  return Plan(core_, prepare(team, collectives::allgather_args(team.core, in, out, bytes), "plan_allgather"),
              "plan_allgather");
}
Plan Team::plan_allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements,
                           std::size_t element) {
  const OpenTeam team(core_, "plan_allgatherv");
  return Plan(core_,
              prepare(team, collectives::allgatherv_args(team.core, in, out, {counts, displacements}, element),
                      "plan_allgatherv"),
              "plan_allgatherv");
}
Plan Team::plan_alltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "plan_alltoall");
  return Plan(core_, prepare(team, collectives::alltoall_args(team.core, in, out, bytes), "plan_alltoall"),
              "plan_alltoall");
}
Plan Team::plan_alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                          const Counts& receive_counts, const Counts& receive_displacements, std::size_t largest,
                          std::size_t element) {
  const OpenTeam team(core_, "plan_alltoallv");
  return Plan(core_,
              prepare(team,
                      collectives::alltoallv_args(team.core, in, out, {counts, displacements},
                                                  {receive_counts, receive_displacements}, largest, element),
                      "plan_alltoallv"),
              "plan_alltoallv");
}
Plan Team::plan_reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "plan_reduce");
  return Plan(core_,
              prepare(team, collectives::reduction_args(team.core, Collective::reduce, in, out, count, type, how, root),
                      "plan_reduce"),
              "plan_reduce");
}
Plan Team::plan_allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_allreduce");
  return Plan(core_, prepare(team, collectives::allreduce_args(team.core, in, out, count, type, how), "plan_allreduce"),
              "plan_allreduce");
}
Plan Team::plan_reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_reduce_scatter");
  return Plan(
      core_,
      prepare(team, collectives::reduction_args(team.core, Collective::reduce_scatter, in, out, count, type, how),
              "plan_reduce_scatter"),
      "plan_reduce_scatter");
}
Plan Team::plan_reduce_scatterv(const void* in, void* out, const Counts& counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_reduce_scatterv");
  return Plan(
      core_,
      prepare(team, collectives::reduce_scatterv_args(team.core, in, out, counts, type, how), "plan_reduce_scatterv"),
      "plan_reduce_scatterv");
}
Plan Team::plan_scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_scan");
  return Plan(
      core_,
      prepare(team, collectives::reduction_args(team.core, Collective::scan, in, out, count, type, how), "plan_scan"),
      "plan_scan");
}
Plan Team::plan_exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_exscan");
  return Plan(core_,
              prepare(team, collectives::reduction_args(team.core, Collective::exscan, in, out, count, type, how),
                      "plan_exscan"),
              "plan_exscan");
}

Plan::Plan(Plan&& other) noexcept
    : team_(std::move(other.team_)),
      operation_(std::exchange(other.operation_, nullptr)),
      name_(other.name_),
      request_(std::exchange(other.request_, Request())) {}

Plan& Plan::operator=(Plan&& other) noexcept {
  if (this == &other) return *this;
  release();
  team_ = std::move(other.team_);
  operation_ = std::exchange(other.operation_, nullptr);
  name_ = other.name_;
  request_ = std::exchange(other.request_, Request());
  return *this;
}

Plan::~Plan() { release(); }

void Plan::release() noexcept {
  if (operation_ != nullptr && team_->collectives != nullptr && !team_->fabric().is_forked())
    static_cast<collectives::State&>(*team_->collectives).schedules().release_kept(*operation_);
  operation_ = nullptr;
  static_cast<void>(request_.release());  // the run goes on
}

void Plan::start() {
  if (operation_ == nullptr) throw Error(Code::invalid_argument, "Plan::start", "an empty plan");
  request_ = start_prepared(OpenTeam(team_, name_), *operation_, name_);
}

std::uint64_t Team::calls_by_algorithm(std::string_view collective, std::string_view algorithm) const {
  const OpenTeam team(core_, "calls_by_algorithm");
  for (const auto& each : collectives::schedule::algorithms())
    if (collectives::schedule::name_of(each.collective) == collective && each.name == algorithm)
      return team.state.schedules().taken(each);
  for (int i = 0; algorithm == "direct" && i < collectives::schedule::collective_count; ++i)
    if (collectives::schedule::name_of(static_cast<Collective>(i)) == collective)
      return team.state.direct_taken(static_cast<Collective>(i));
  return 0;
}

}  // namespace hmc
