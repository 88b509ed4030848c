// Blocking collectives: the place where a reader of Team::allreduce, barrier and the others starts.
//
// The engine is chosen once per call, before anything moves, and is the same on every rank:
//  - node, by load and store: a call of a team on one node, unless a setting selects a schedule
//  - network, by a schedule: all others
// Reductions of the node engine run on the devices if all ranks can use theirs. Other device buffers are staged through
// host memory.
#include <hmc/team.hpp>

#include <vector>

#include "collectives/args/check_inline.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/device/reduction.hpp"
#include "collectives/dispatch/staging.hpp"
#include "collectives/node/engine.hpp"

namespace hmc {

using base::Status;

namespace collectives {
namespace {

/// Reports the failure of a call of the node engine to all ranks, which may be in a schedule, and throws.
[[noreturn, gnu::cold]] void throw_node_failure(TeamObject& team, const Status& status, const CollectiveArgs& args) {
  team.schedules().fail(status);
  team.schedules().throw_error(status, args.operation, args.bytes());
}

void require(TeamObject& team, const Status& status, const CollectiveArgs& args) {
  if (!status.ok()) [[unlikely]]
    throw_node_failure(team, status, args);
}

/// Null: the network engine runs the call.
inline DirectTeam* node_for(const TeamObject& team, const CollectiveArgs& args) noexcept {
  DirectTeam* const node = team.node();
  if (node == nullptr || !node_engine::can(*node, args)) return nullptr;
  return team.has_setting(args.call.collective) && team.wants_schedule(args.call) ? nullptr : node;
}

[[gnu::cold]] void run_on_network(TeamObject& team, const CollectiveArgs& args) {
  if (const Status status = team.schedules().run(args); !status.ok()) [[unlikely]]
    team.schedules().throw_error(status, args.operation, args.bytes());
}

/// A call with buffers that the host can access. In a barrier all branches on the collective are constant.
[[gnu::always_inline]] inline void run_on_host(TeamObject& team, const CollectiveArgs& args) {
  DirectTeam* const node = node_for(team, args);
  if (node == nullptr) [[unlikely]]
    return run_on_network(team, args);
  team.count_direct(args.call.collective);
  if (const Status status = node_engine::run(*node, args); !status.ok()) [[unlikely]]
    throw_node_failure(team, status, args);
}

/// A call on a machine with devices. The only place of the fallback from devices to hosts: a rank whose device can't
/// run the call stages its buffers at once. A rank whose device can run it, but a peer's can't, has already arrived and
/// continues the same call.
[[gnu::noinline]] void run_with_devices(TeamObject& team, const CollectiveArgs& args) {
  if (!device::need_host_copies(args.input, args.output)) return run_on_host(team, args);
  DirectTeam* const node = node_for(team, args);
  if (node == nullptr)
    return run_staged(team, args, [&](const CollectiveArgs& staged) { run_on_network(team, staged); });
  team.count_direct(args.call.collective);
  DeviceReduction devices(*node, args);
  if (!devices.can())
    return run_staged(team, args,
                      [&](const CollectiveArgs& staged) { require(team, node_engine::run(*node, staged), staged); });
  bool agreed = false;
  require(team, devices.agree(agreed), args);
  if (agreed) return require(team, devices.run(), args);
  run_staged(team, args, [&](const CollectiveArgs& staged) {
    require(team, node_engine::run_after_devices(*node, staged), staged);
  });
}

/// Any call except alltoallv.
void run(TeamObject& team, const CollectiveArgs& args) {
  if (memory::devices_present()) [[unlikely]]
    return run_with_devices(team, args);
  run_on_host(team, args);
}

/// Called after a mismatch, before any data has moved. Each rank compares its own pairs, and an allgather collects the
/// results. The error names the pairs and both counts.
[[noreturn]] void throw_count_mismatch(TeamObject& team, const CollectiveArgs& args) {
  const auto size = static_cast<std::size_t>(team.size());
  std::vector<std::size_t> sent(size);
  run(team, check(team, describe::alltoall(args.call.counts.data(), sent.data(), sizeof(std::size_t)), args.operation));
  const CountMismatch mine = first_count_mismatch(team.rank(), sent, args.call.receive_counts);
  std::vector<CountMismatch> of_each(size);
  run(team, check(team, describe::allgather(&mine, of_each.data(), sizeof mine), args.operation));
  throw count_mismatch_error(team, args.operation, merged(of_each), mine);
}

/// alltoallv compares the counts of all pairs before data moves. The engine doesn't depend on the counts, which differ
/// between ranks. Throws Error{mismatch} on every rank if they don't match; the team stays usable.
void run_alltoallv(TeamObject& team, const CollectiveArgs& args) {
  DirectTeam* const node = node_for(team, args);
  CountsOf all;
  const auto run_on_host = [&](const CollectiveArgs& call) {
    if (node != nullptr) {
      team.count_direct(CollectiveKind::alltoall);
      return require(team, node_engine::alltoallv(*node, call, all), call);
    }
    all = counts_of(team.rank(), call.call.counts, call.call.receive_counts);
    const Reduction combining(combine_counts, nullptr, true);
    CollectiveArgs comparison =
        check(team, describe::allreduce(&all, &all, 1, DType::located_i64, combining), call.operation);
    comparison.signature = call.signature;
    run_on_network(team, comparison);
    if (all.balance != 0) return;
    CollectiveArgs agreed = call;  // the largest count of any pair determines the pieces
    agreed.call.largest = all.largest;
    run_on_network(team, agreed);
  };
  if (device::need_host_copies(args.input, args.output)) [[unlikely]] {
    run_staged(team, args, run_on_host);
  } else {
    run_on_host(args);
  }
  if (all.balance != 0) [[unlikely]]
    throw_count_mismatch(team, args);
}

}  // namespace
}  // namespace collectives

void Team::run(const Collective& call) {
  if (call.kind == CollectiveKind::barrier) return barrier();
  const char* const name = name_of(call, collectives::Form::run);
  collectives::TeamObject& team = collectives::open(object_, name);
  const collectives::CollectiveArgs args = collectives::check(team, call, name);
  if (call.kind == CollectiveKind::alltoall && call.is_uneven) return collectives::run_alltoallv(team, args);
  collectives::run(team, args);
}

// ---- the calls that take least time: their kind is constant, so the compiler removes the description and most checks

namespace {

[[gnu::always_inline]] inline void run_constant(const std::shared_ptr<collectives::TeamObject>& object,
                                                const Collective& call, CollectiveKind kind, const char* name) {
  collectives::TeamObject& team = collectives::open(object, name);
  collectives::run(team, collectives::checks::check_kind(team, call, kind, name, collectives::Form::run));
}

}  // namespace

void Team::broadcast(void* data, std::size_t bytes, int root) {
  run_constant(object_, describe::broadcast(data, bytes, root), CollectiveKind::broadcast, "broadcast");
}
void Team::allgather(const void* in, void* out, std::size_t bytes) {
  run_constant(object_, describe::allgather(in, out, bytes), CollectiveKind::allgather, "allgather");
}
void Team::allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) {
  run_constant(object_, describe::allreduce(in, out, count, type, how), CollectiveKind::allreduce, "allreduce");
}
/// It also completes this rank's puts.
void Team::barrier() {
  collectives::TeamObject& team = collectives::open(object_, "barrier");
  static constexpr collectives::CollectiveArgs args = collectives::barrier_args();
  rma::Fabric& fabric = team.fabric();
  if (const Status status = fabric.flush_wires(base::activity_of(CollectiveKind::barrier)); !status.ok()) [[unlikely]] {
    // If a rank of this team has died or aborted the job, the team's reports may contain the cause.
    const bool is_lost = status.code == Code::peer_failed || status.code == Code::aborted;
    if (is_lost && (team.rank_of(status.peer) >= 0 || !fabric.waiter.page().aborted().ok()))
      collectives::throw_node_failure(team, status, args);
    rma::throw_status(fabric, status, {"barrier"});
  }
  collectives::run_on_host(team, args);
}

}  // namespace hmc
