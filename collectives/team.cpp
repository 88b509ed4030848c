// The public Team, blocking: takes the direct or the general form, and says what went wrong.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/broadcast/broadcast.hpp"
#include "collectives/calls.hpp"
#include "collectives/construction/derive.hpp"
#include "collectives/counts_match.hpp"
#include "collectives/direct/pull.hpp"
#include "collectives/failure.hpp"
#include "collectives/state.hpp"
#include "runtime/window/device/host_copies.hpp"

namespace hmc {

using collectives::DirectTeam;
using collectives::Given;
using collectives::OpenTeam;
using schedule_kind = collectives::schedule::Collective;

namespace {

/// Of a collective by load and store: all ranks are to hear of its failure, and may be in a schedule.
[[noreturn]] void refuse(const OpenTeam& team, const base::Status& status, const char* operation, std::size_t bytes) {
  collectives::ScheduleTeam& schedules = team.state.schedules();
  schedules.fail(status);
  collectives::throw_failure(team.core, schedules, status, operation, bytes);
}

void require(const OpenTeam& team, const base::Status& status, const char* operation, std::size_t bytes) {
  if (!status.ok()) [[unlikely]]
    refuse(team, status, operation, bytes);
}

void run_on_host(const OpenTeam& team, const Given& given) {
  collectives::ScheduleTeam& schedules = team.state.schedules();
  if (DirectTeam* const direct = team.state.direct(given.call.collective, given.bytes());
      direct != nullptr && collectives::pulls(*direct, given)) {
    team.state.count_direct(given.call.collective);
    return require(team, collectives::pull(*direct, given), given.operation, given.bytes());
  }
  const base::Status status = schedules.run(given);
  if (!status.ok()) [[unlikely]]
    collectives::throw_failure(team.core, schedules, status, given.operation, given.bytes());
}

/// Others may be in the call already: if a buffer can't be staged, they hear that this rank won't come.
window::HostCopies host_copies(const OpenTeam& team, const char* operation, const void* in, std::size_t in_bytes,
                               void* out, std::size_t out_bytes) {
  const window::Fabric& fabric = team.core.fabric();
  try {
    return window::HostCopies(fabric, operation, in, in_bytes, out, out_bytes);
  } catch (const Error& error) {
    team.state.schedules().fail(
        base::Status::failure(error.detail().code, "a rank couldn't stage its buffer", fabric.rank));
    throw;
  }
}

/// Buffers that the host can't reach are staged.
void run_on_copies(const OpenTeam& team, const Given& given) {
  const collectives::schedule::Shape shape{team.size(), 1};
  const window::HostCopies copies = host_copies(
      team, given.operation, given.input, collectives::schedule::input_bytes(shape, given.call, team.rank()),
      given.output, collectives::schedule::output_bytes(shape, given.call, team.rank()));
  Given staged = given;
  staged.input = copies.in();
  staged.output = copies.out();
  run_on_host(team, staged);
  copies.finish();
}

void run(const OpenTeam& team, const Given& given) {
  if (window::need_host_copies(given.input, given.output)) [[unlikely]]
    return run_on_copies(team, given);
  run_on_host(team, given);
}

/// As a part of that alltoallv.
void agree(const OpenTeam& team, const Given& given, collectives::CountsOf& counts) {
  const Reduction how(collectives::combine_counts, nullptr, true);
  if (DirectTeam* const direct = team.state.direct(schedule_kind::allreduce, sizeof counts)) {
    collectives::ReduceCall call = collectives::allreduce_direct_call(&counts, &counts, 1, DType::located_i64, how);
    call.signature = given.signature;
    return require(team, collectives::allreduce_direct(*direct, call), given.operation, given.bytes());
  }
  Given call =
      collectives::reduction_call(team, schedule_kind::allreduce, &counts, &counts, 1, DType::located_i64, how);
  call.signature = given.signature;
  call.operation = given.operation;
  run(team, call);
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
  if (const base::Status status = window::flush_wires(core_->fabric()); !status.ok()) [[unlikely]]
    window::throw_status(core_->fabric(), status, {"barrier"});
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
  if (window::need_host_copies(data, data)) [[unlikely]] {
    const window::HostCopies copies = host_copies(team, "broadcast", data, bytes, data, bytes);
    broadcast(copies.out(), bytes, root);
    return copies.finish();
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
  if (window::need_host_copies(in, out)) [[unlikely]] {
    const auto whole = bytes * static_cast<std::size_t>(team.size());
    const window::HostCopies copies = host_copies(team, "allgather", in, bytes, out, whole);
    allgather(copies.in(), copies.out(), bytes);
    return copies.finish();
  }
  const collectives::AllgatherCall call{in, out, bytes};
  team.state.count_direct(schedule_kind::allgather);
  require(team, collectives::allgather_direct(*direct, call), "allgather", bytes);
}

void Team::allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  const OpenTeam team(core_, "allreduce");
  const bool known = static_cast<int>(type) < dtype_count;  // else the check below says so
  if (DirectTeam* const direct = team.state.direct(schedule_kind::allreduce, known ? count * size_of(type) : 0)) {
    const collectives::ReduceCall call = collectives::allreduce_direct_call(in, out, count, type, how);
    if (window::need_host_copies(in, out)) [[unlikely]] {
      const window::HostCopies copies = host_copies(team, "allreduce", in, call.bytes(), out, call.bytes());
      allreduce(copies.in(), copies.out(), count, type, how);
      return copies.finish();
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
  Given given = collectives::alltoallv_call(team, in, out, {counts, displacements},
                                            {receive_counts, receive_displacements}, element);
  // All must know the largest count of any pair, by which a call is cut, and that the counts match.
  collectives::CountsOf all = collectives::counts_of(team.rank(), counts, receive_counts);
  agree(team, given, all);
  if (all.balance != 0) [[unlikely]]
    collectives::throw_uneven(*this, counts, receive_counts);
  given.call.largest = all.largest;
  run(team, given);
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

std::uint64_t Team::carried_out(std::string_view collective, std::string_view algorithm) const {
  const OpenTeam team(core_, "carried_out");
  for (const auto& each : collectives::schedule::algorithms())
    if (collectives::schedule::name_of(each.collective) == collective && each.name == algorithm)
      return team.state.schedules().taken(each);
  for (int i = 0; algorithm == "direct" && i < collectives::schedule::collective_count; ++i)
    if (collectives::schedule::name_of(static_cast<schedule_kind>(i)) == collective)
      return team.state.direct_taken(static_cast<schedule_kind>(i));
  return 0;
}

}  // namespace hmc
