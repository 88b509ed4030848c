// The public Team, non-blocking and persistent calls.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include <utility>

#include "collectives/dispatch/staged_call.hpp"
#include "collectives/network/throw_failure.hpp"
#include "collectives/state/calls.hpp"
#include "collectives/state/state.hpp"

namespace hmc {

using collectives::CollectiveArgs;
using collectives::OpenTeam;
using collectives::schedule::Collective;

namespace {

[[noreturn]] void refuse(const OpenTeam& team, const base::Status& status, const CollectiveArgs& args,
                         const char* name) {
  collectives::throw_failure(team.core, team.state.schedules(), status, name, args.bytes());
}

bool is_away(const CollectiveArgs& args) noexcept { return rma::need_host_copies(args.input, args.output); }

Request start(const OpenTeam& team, CollectiveArgs args, const char* name) {
  collectives::Copies copies;
  if (is_away(args)) [[unlikely]] {
    copies = collectives::stage(team, name, collectives::buffers_of(team, args));
    args = collectives::of_copies(args, *copies);
  }
  args.signature = args.signature.non_blocking();
  std::uint64_t ticket = 0;
  if (const base::Status status = team.state.schedules().start(args, ticket, std::move(copies)); !status.ok())
    refuse(team, status, args, name);
  return team.state.schedules().request_of(ticket, name);
}

collectives::Operation* prepare(const OpenTeam& team, CollectiveArgs args, const char* name) {
  collectives::Copies copies;
  if (is_away(args)) [[unlikely]] {
    copies = collectives::make_room(team, name, collectives::buffers_of(team, args));
    args = collectives::of_copies(args, *copies);
  }
  args.signature = args.signature.non_blocking();
  collectives::Operation* operation = nullptr;
  if (const base::Status status = team.state.schedules().prepare_kept(args, operation, std::move(copies)); !status.ok())
    refuse(team, status, args, name);
  return operation;
}

/// The caller provides the largest count.
CollectiveArgs alltoallv_agreed(const OpenTeam& team, const void* in, void* out, const collectives::Layout& sent,
                                const collectives::Layout& received, std::size_t largest, std::size_t element) {
  CollectiveArgs args = collectives::alltoallv_call(team, in, out, sent, received, element);
  if (args.call.largest > largest)
    throw Error(Code::invalid_argument, "alltoallv",
                fmt::format("a count of {} is larger than the largest, {}", args.call.largest, largest));
  // Far above any buffer, and far below the limit of the pieces' lengths.
  constexpr std::size_t most = std::size_t{1} << 48;
  if (largest > most / element)
    throw Error(Code::invalid_argument, "alltoallv",
                fmt::format("a largest count of {} elements of {} bytes is more than there can be", largest, element));
  args.call.largest = largest;
  args.compares_as = team.rank();
  args.signature = collectives::Signature::alltoallv(args.call.element_bytes, largest);
  return args;
}

}  // namespace

Request Team::ibarrier() {
  const OpenTeam team(core_, "ibarrier");
  return start(team, collectives::barrier_call(), "ibarrier");
}
Request Team::ibroadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "ibroadcast");
  return start(team, collectives::broadcast_call(team, data, bytes, root), "ibroadcast");
}
Request Team::igather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "igather");
  return start(team, collectives::gather_call(team, in, out, bytes, root), "igather");
}
Request Team::igatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element) {
  const OpenTeam team(core_, "igatherv");
  return start(team, collectives::gatherv_call(team, in, out, {counts, displacements}, root, element), "igatherv");
}
Request Team::iscatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "iscatter");
  return start(team, collectives::scatter_call(team, in, out, bytes, root), "iscatter");
}
Request Team::iscatterv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element) {
  const OpenTeam team(core_, "iscatterv");
  return start(team, collectives::scatterv_call(team, in, out, {counts, displacements}, root, element), "iscatterv");
}
Request Team::iallgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "iallgather");
  return start(team, collectives::allgather_call(team, in, out, bytes), "iallgather");
}
Request Team::iallgatherv(const void* in, void* out, Counts counts, Counts displacements, std::size_t element) {
  const OpenTeam team(core_, "iallgatherv");
  return start(team, collectives::allgatherv_call(team, in, out, {counts, displacements}, element), "iallgatherv");
}
Request Team::ialltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "ialltoall");
  return start(team, collectives::alltoall_call(team, in, out, bytes), "ialltoall");
}
Request Team::ialltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                         Counts receive_displacements, std::size_t largest, std::size_t element) {
  const OpenTeam team(core_, "ialltoallv");
  return start(team,
               alltoallv_agreed(team, in, out, {counts, displacements}, {receive_counts, receive_displacements},
                                largest, element),
               "ialltoallv");
}
Request Team::ireduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "ireduce");
  return start(team, collectives::reduction_call(team, Collective::reduce, in, out, count, type, how, root), "ireduce");
}
Request Team::iallreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iallreduce");
  return start(team, collectives::reduction_call(team, Collective::allreduce, in, out, count, type, how), "iallreduce");
}
Request Team::ireduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "ireduce_scatter");
  return start(team, collectives::reduction_call(team, Collective::reduce_scatter, in, out, count, type, how),
               "ireduce_scatter");
}
Request Team::ireduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "ireduce_scatterv");
  return start(team, collectives::reduce_scatterv_call(team, in, out, counts, type, how), "ireduce_scatterv");
}
Request Team::iscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iscan");
  return start(team, collectives::reduction_call(team, Collective::scan, in, out, count, type, how), "iscan");
}
Request Team::iexscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "iexscan");
  return start(team, collectives::reduction_call(team, Collective::exscan, in, out, count, type, how), "iexscan");
}

Plan Team::plan_barrier() {
  const OpenTeam team(core_, "plan_barrier");
  return Plan(core_, prepare(team, collectives::barrier_call(), "plan_barrier"), "plan_barrier");
}
Plan Team::plan_broadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_broadcast");
  return Plan(core_, prepare(team, collectives::broadcast_call(team, data, bytes, root), "plan_broadcast"),
              "plan_broadcast");
}
Plan Team::plan_gather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_gather");
  return Plan(core_, prepare(team, collectives::gather_call(team, in, out, bytes, root), "plan_gather"), "plan_gather");
}
Plan Team::plan_gatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element) {
  const OpenTeam team(core_, "plan_gatherv");
  return Plan(
      core_,
      prepare(team, collectives::gatherv_call(team, in, out, {counts, displacements}, root, element), "plan_gatherv"),
      "plan_gatherv");
}
Plan Team::plan_scatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "plan_scatter");
  return Plan(core_, prepare(team, collectives::scatter_call(team, in, out, bytes, root), "plan_scatter"),
              "plan_scatter");
}
Plan Team::plan_scatterv(const void* in, void* out, Counts counts, Counts displacements, int root,
                         std::size_t element) {
  const OpenTeam team(core_, "plan_scatterv");
  return Plan(
      core_,
      prepare(team, collectives::scatterv_call(team, in, out, {counts, displacements}, root, element), "plan_scatterv"),
      "plan_scatterv");
}
Plan Team::plan_allgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "plan_allgather");
  return Plan(core_, prepare(team, collectives::allgather_call(team, in, out, bytes), "plan_allgather"),
              "plan_allgather");
}
Plan Team::plan_allgatherv(const void* in, void* out, Counts counts, Counts displacements, std::size_t element) {
  const OpenTeam team(core_, "plan_allgatherv");
  return Plan(
      core_,
      prepare(team, collectives::allgatherv_call(team, in, out, {counts, displacements}, element), "plan_allgatherv"),
      "plan_allgatherv");
}
Plan Team::plan_alltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "plan_alltoall");
  return Plan(core_, prepare(team, collectives::alltoall_call(team, in, out, bytes), "plan_alltoall"), "plan_alltoall");
}
Plan Team::plan_alltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                          Counts receive_displacements, std::size_t largest, std::size_t element) {
  const OpenTeam team(core_, "plan_alltoallv");
  return Plan(core_,
              prepare(team,
                      alltoallv_agreed(team, in, out, {counts, displacements}, {receive_counts, receive_displacements},
                                       largest, element),
                      "plan_alltoallv"),
              "plan_alltoallv");
}
Plan Team::plan_reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "plan_reduce");
  return Plan(core_,
              prepare(team, collectives::reduction_call(team, Collective::reduce, in, out, count, type, how, root),
                      "plan_reduce"),
              "plan_reduce");
}
Plan Team::plan_allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_allreduce");
  return Plan(core_,
              prepare(team, collectives::reduction_call(team, Collective::allreduce, in, out, count, type, how),
                      "plan_allreduce"),
              "plan_allreduce");
}
Plan Team::plan_reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_reduce_scatter");
  return Plan(core_,
              prepare(team, collectives::reduction_call(team, Collective::reduce_scatter, in, out, count, type, how),
                      "plan_reduce_scatter"),
              "plan_reduce_scatter");
}
Plan Team::plan_reduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_reduce_scatterv");
  return Plan(
      core_, prepare(team, collectives::reduce_scatterv_call(team, in, out, counts, type, how), "plan_reduce_scatterv"),
      "plan_reduce_scatterv");
}
Plan Team::plan_scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_scan");
  return Plan(
      core_, prepare(team, collectives::reduction_call(team, Collective::scan, in, out, count, type, how), "plan_scan"),
      "plan_scan");
}
Plan Team::plan_exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "plan_exscan");
  return Plan(
      core_,
      prepare(team, collectives::reduction_call(team, Collective::exscan, in, out, count, type, how), "plan_exscan"),
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
}

void Plan::start() {
  if (operation_ == nullptr) throw Error(Code::invalid_argument, "Plan::start", "an empty plan");
  const OpenTeam team(team_, name_);
  if (operation_->copies != nullptr) [[unlikely]] {
    // The progress thread may end the last run at any moment. The input is copied only after that.
    if (const base::Status status = team.state.schedules().may_start(*operation_); !status.ok())
      refuse(team, status, operation_->args(), name_);
    collectives::take(team, name_, *operation_->copies);
  }
  std::uint64_t ticket = 0;
  if (const base::Status status = team.state.schedules().start_kept(*operation_, ticket); !status.ok())
    refuse(team, status, operation_->args(), name_);
  request_ = team.state.schedules().request_of(ticket, name_);
}

}  // namespace hmc
