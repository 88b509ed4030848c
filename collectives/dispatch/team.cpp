// The public Team, blocking calls: chooses the direct or the general implementation, and throws errors.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include "collectives/args/counts_match.hpp"
#include "collectives/dispatch/staged_call.hpp"
#include "collectives/network/operation.hpp"
#include "collectives/network/throw_failure.hpp"
#include "collectives/node/allgather.hpp"
#include "collectives/node/allreduce.hpp"
#include "collectives/node/barrier.hpp"
#include "collectives/node/broadcast.hpp"
#include "collectives/node/pull.hpp"
#include "collectives/schedule/algorithms/registry.hpp"
#include "collectives/state/calls.hpp"
#include "collectives/state/state.hpp"
#include "collectives/team/derive.hpp"

namespace hmc {

using collectives::CollectiveArgs;
using collectives::DirectTeam;
using collectives::OpenTeam;
using schedule_kind = collectives::schedule::Collective;

namespace {

/// For a collective by load and store: also reports the failure to all ranks, which may be in a schedule.
[[noreturn]] void refuse(const OpenTeam& team, const base::Status& status, const char* operation, std::size_t bytes) {
  collectives::ScheduleTeam& schedules = team.state.schedules();
  schedules.fail(status);
  collectives::throw_failure(team.core, schedules, status, operation, bytes);
}

void require(const OpenTeam& team, const base::Status& status, const char* operation, std::size_t bytes) {
  if (!status.ok()) [[unlikely]]
    refuse(team, status, operation, bytes);
}

/// Null if the call runs as a schedule.
DirectTeam* pulling(const OpenTeam& team, const CollectiveArgs& args) {
  const std::size_t largest = collectives::extent_of(args.call) * args.call.element_bytes;
  DirectTeam* const direct = team.state.direct(args.call.collective, largest);
  return direct != nullptr && collectives::pulls(*direct, args) ? direct : nullptr;
}

void run_on_host(const OpenTeam& team, const CollectiveArgs& args) {
  if (DirectTeam* const direct = pulling(team, args)) {
    team.state.count_direct(args.call.collective);
    return require(team, collectives::pull(*direct, args), args.operation, args.bytes());
  }
  collectives::ScheduleTeam& schedules = team.state.schedules();
  const base::Status status = schedules.run(args);
  if (!status.ok()) [[unlikely]]
    collectives::throw_failure(team.core, schedules, status, args.operation, args.bytes());
}

/// For buffers that the host can't access.
template <typename Run> void on_copies(const OpenTeam& team, const CollectiveArgs& args, const Run& run) {
  const collectives::Copies copies = collectives::stage(team, args.operation, collectives::buffers_of(team, args));
  run(team, collectives::of_copies(args, *copies));
  collectives::finish(team, args.operation, *copies);
}

/// The devices run the call if all ranks can use theirs. Else the hosts run it on copies: as a new call, or as the rest
/// of the call that has begun.
void run_on_device(const OpenTeam& team, const CollectiveArgs& args) {
  DirectTeam* const direct = pulling(team, args);
  bool has_arrived = false;
  if (direct != nullptr) {
    const base::Status status = collectives::pull_on_device(*direct, args, has_arrived);
    if (!collectives::is_for_host(status)) {
      team.state.count_direct(args.call.collective);
      return require(team, status, args.operation, args.bytes());
    }
  }
  if (!has_arrived) return on_copies(team, args, run_on_host);
  on_copies(team, args, [&](const OpenTeam& on, const CollectiveArgs& staged) {
    on.state.count_direct(staged.call.collective);
    require(on, collectives::pull_arrived(*direct, staged), staged.operation, staged.bytes());
  });
}

void run(const OpenTeam& team, const CollectiveArgs& args) {
  if (rma::need_host_copies(args.input, args.output)) [[unlikely]]
    return run_on_device(team, args);
  run_on_host(team, args);
}

/// Compares the counts as a part of the alltoallv. Its schedules are cut by the largest count of any pair.
void agree(const OpenTeam& team, const CollectiveArgs& args, collectives::CountsOf& counts) {
  const Reduction how(collectives::combine_counts, nullptr, true);
  if (DirectTeam* const direct = team.state.direct(schedule_kind::allreduce, sizeof counts)) {
    collectives::ReduceCall call = collectives::allreduce_direct_call(&counts, &counts, 1, DType::located_i64, how);
    call.signature = args.signature;
    return require(team, collectives::allreduce_direct(*direct, call), args.operation, args.bytes());
  }
  CollectiveArgs call =
      collectives::reduction_call(team, schedule_kind::allreduce, &counts, &counts, 1, DType::located_i64, how);
  call.signature = args.signature;
  call.operation = args.operation;
  run(team, call);
}

/// Compares the counts of all pairs. If they match (all.balance is 0), moves the data.
void run_alltoallv(const OpenTeam& team, const CollectiveArgs& args, collectives::CountsOf& all) {
  DirectTeam* direct = team.state.direct_at_any_size(schedule_kind::alltoall);
  if (direct == nullptr) {
    all = collectives::counts_of(team.rank(), args.call.counts, args.call.receive_counts);
    agree(team, args, all);
    if (all.balance != 0) return;
    direct = team.state.direct(schedule_kind::alltoall, all.largest * args.call.element_bytes);
  }
  if (direct != nullptr) {
    collectives::Compared compared;
    require(team, collectives::pull_alltoallv(*direct, args, compared), args.operation, args.bytes());
    all = compared.all;
    if (compared.is_done) return team.state.count_direct(schedule_kind::alltoall);
    if (all.balance != 0) return;
  }
  CollectiveArgs agreed = args;
  agreed.call.largest = all.largest;
  run_on_host(team, agreed);
}

}  // namespace

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

void Team::close() {
  const OpenTeam team(core_, "Team::close");
  if (core_->is_world()) throw Error(Code::invalid_argument, "Team::close", "the world is closed by Runtime::close");
  collectives::close(team);
}

void Team::require_equal(const char* operation, std::size_t expected, std::size_t got) {
  if (expected != got)
    throw Error(Code::invalid_argument, operation,
                fmt::format("the output has {} elements; it needs {}", got, expected));
}

void Team::barrier() {
  const OpenTeam team(core_, "barrier");
  if (const base::Status status = rma::flush_wires(core_->fabric(), base::Activity::barrier); !status.ok())
      [[unlikely]] {
    // A rank of this team that has failed, or has aborted the job, may have reported the cause before.
    const bool is_lost = status.code == Code::peer_failed || status.code == Code::aborted;
    if (is_lost && (core_->rank_of(status.peer) >= 0 || !core_->fabric().waiter.page().aborted().ok()))
      refuse(team, status, "barrier", 0);
    rma::throw_status(core_->fabric(), status, {"barrier"});
  }
  if (DirectTeam* const direct = team.state.direct(schedule_kind::barrier, 0)) [[likely]] {
    team.state.count_direct(schedule_kind::barrier);
    return require(team, collectives::barrier_direct(*direct), "barrier", 0);
  }
  run(team, collectives::barrier_call());
}

void Team::broadcast(void* data, std::size_t bytes, int root) {
  const OpenTeam team(core_, "broadcast");
  DirectTeam* const direct = team.state.direct(schedule_kind::broadcast, bytes);
  if (direct == nullptr) return run(team, collectives::broadcast_call(team, data, bytes, root));
  collectives::check_broadcast(team, data, bytes, root);
  if (rma::need_host_copies(data, data)) [[unlikely]] {
    const bool gives = team.rank() == root;
    const collectives::Copies copies = collectives::stage(
        team, "broadcast", {data, gives ? bytes : 0, data, bytes, gives ? rma::Output::unchanged : rma::Output::whole});
    broadcast(copies->out(), bytes, root);
    return collectives::finish(team, "broadcast", *copies);
  }
  const collectives::BroadcastCall call{data, bytes, root};
  team.state.count_direct(schedule_kind::broadcast);
  require(team, collectives::broadcast_direct(*direct, call), "broadcast", bytes);
}

void Team::allgather(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "allgather");
  DirectTeam* const direct = team.state.direct(schedule_kind::allgather, bytes);
  if (direct == nullptr) return run(team, collectives::allgather_call(team, in, out, bytes));
  collectives::check_allgather(team, in, out, bytes);
  if (rma::need_host_copies(in, out)) [[unlikely]] {
    const auto whole = bytes * static_cast<std::size_t>(team.size());
    const collectives::Copies copies =
        collectives::stage(team, "allgather", {in, bytes, out, whole, rma::Output::whole});
    allgather(copies->in(), copies->out(), bytes);
    return collectives::finish(team, "allgather", *copies);
  }
  const collectives::AllgatherCall call{in, out, bytes};
  team.state.count_direct(schedule_kind::allgather);
  require(team, collectives::allgather_direct(*direct, call), "allgather", bytes);
}

void Team::allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "allreduce");
  const bool known = static_cast<int>(type) < dtype_count;  // if not, a later check throws
  if (DirectTeam* const direct = team.state.direct(schedule_kind::allreduce, known ? count * size_of(type) : 0)) {
    const collectives::ReduceCall call = collectives::allreduce_direct_call(in, out, count, type, how);
    if (rma::need_host_copies(in, out)) [[unlikely]] {
      const base::Status status = collectives::allreduce_on_device(*direct, call, how.op);
      if (!collectives::is_for_host(status)) {
        team.state.count_direct(schedule_kind::allreduce);
        return require(team, status, "allreduce", call.bytes());
      }
      const collectives::Copies copies =
          collectives::stage(team, "allreduce", {in, call.bytes(), out, call.bytes(), rma::Output::whole});
      allreduce(copies->in(), copies->out(), count, type, how);
      return collectives::finish(team, "allreduce", *copies);
    }
    team.state.count_direct(schedule_kind::allreduce);
    return require(team, collectives::allreduce_direct(*direct, call), "allreduce", call.bytes());
  }
  run(team, collectives::reduction_call(team, schedule_kind::allreduce, in, out, count, type, how));
}

void Team::allreduce(const void* in, void* out, std::size_t count, DType type, Op op) {
  allreduce(in, out, count, type, Reduction(op));
}
void Team::allreduce(const void* in, void* out, std::size_t count, DType type, ReduceFunction function, void* context) {
  allreduce(in, out, count, type, Reduction(function, context));
}

void Team::gather(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "gather");
  run(team, collectives::gather_call(team, in, out, bytes, root));
}
void Team::gatherv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element) {
  const OpenTeam team(core_, "gatherv");
  run(team, collectives::gatherv_call(team, in, out, {counts, displacements}, root, element));
}
void Team::scatter(const void* in, void* out, std::size_t bytes, int root) {
  const OpenTeam team(core_, "scatter");
  run(team, collectives::scatter_call(team, in, out, bytes, root));
}
void Team::scatterv(const void* in, void* out, Counts counts, Counts displacements, int root, std::size_t element) {
  const OpenTeam team(core_, "scatterv");
  run(team, collectives::scatterv_call(team, in, out, {counts, displacements}, root, element));
}
void Team::allgatherv(const void* in, void* out, Counts counts, Counts displacements, std::size_t element) {
  const OpenTeam team(core_, "allgatherv");
  run(team, collectives::allgatherv_call(team, in, out, {counts, displacements}, element));
}
void Team::alltoall(const void* in, void* out, std::size_t bytes) {
  const OpenTeam team(core_, "alltoall");
  run(team, collectives::alltoall_call(team, in, out, bytes));
}
void Team::alltoallv(const void* in, Counts counts, Counts displacements, void* out, Counts receive_counts,
                     Counts receive_displacements, std::size_t element) {
  const OpenTeam team(core_, "alltoallv");
  const CollectiveArgs args = collectives::alltoallv_call(team, in, out, {counts, displacements},
                                                          {receive_counts, receive_displacements}, element);
  collectives::CountsOf all;
  const auto run_it = [&](const OpenTeam& on, const CollectiveArgs& it) { run_alltoallv(on, it, all); };
  if (rma::need_host_copies(in, out)) [[unlikely]] {
    on_copies(team, args, run_it);
  } else {
    run_it(team, args);
  }
  if (all.balance != 0) [[unlikely]]
    collectives::throw_uneven(*this, counts, receive_counts);
}

void Team::reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how, int root) {
  const OpenTeam team(core_, "reduce");
  run(team, collectives::reduction_call(team, schedule_kind::reduce, in, out, count, type, how, root));
}
void Team::reduce_scatter(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "reduce_scatter");
  run(team, collectives::reduction_call(team, schedule_kind::reduce_scatter, in, out, count, type, how));
}
void Team::reduce_scatterv(const void* in, void* out, Counts counts, DType type, const Reduction& how) {
  const OpenTeam team(core_, "reduce_scatterv");
  run(team, collectives::reduce_scatterv_call(team, in, out, counts, type, how));
}
void Team::scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "scan");
  run(team, collectives::reduction_call(team, schedule_kind::scan, in, out, count, type, how));
}
void Team::exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "exscan");
  run(team, collectives::reduction_call(team, schedule_kind::exscan, in, out, count, type, how));
}

std::uint64_t Team::calls_by_algorithm(std::string_view collective, std::string_view algorithm) const {
  const OpenTeam team(core_, "calls_by_algorithm");
  for (const auto& each : collectives::schedule::algorithms())
    if (collectives::schedule::name_of(each.collective) == collective && each.name == algorithm)
      return team.state.schedules().taken(each);
  for (int i = 0; algorithm == "direct" && i < collectives::schedule::collective_count; ++i)
    if (collectives::schedule::name_of(static_cast<schedule_kind>(i)) == collective)
      return team.state.direct_taken(static_cast<schedule_kind>(i));
  return 0;
}

}  // namespace hmc
