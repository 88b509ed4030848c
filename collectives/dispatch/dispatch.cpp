#include "collectives/dispatch/dispatch.hpp"

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "collectives/args/counts_match.hpp"
#include "collectives/device/reduction.hpp"
#include "collectives/network/schedule_team.hpp"
#include "runtime/device/host_copies.hpp"

namespace hmc::collectives {

using base::Status;
using schedule::Collective;

namespace {

void require(const OpenTeam& team, const Status& status, const CollectiveArgs& args) {
  if (!status.ok()) [[unlikely]]
    throw_node_failure(team, status, args);
}

// ---- device buffers: host copies replace those that the host can't access

using Copies = std::unique_ptr<device::HostCopies>;

device::Output output_of(const OpenTeam& team, const CollectiveArgs& args) {
  const Collective kind = args.call.collective;
  if (kind == Collective::broadcast && team.rank() == args.call.root) return device::Output::unchanged;
  if (kind == Collective::exscan && team.rank() == 0) return device::Output::unchanged;
  return args.call.irregular() ? device::Output::parts : device::Output::whole;  // gaps between the blocks
}

/// Allocates the copies; copies nothing yet.
Copies make_copies(const OpenTeam& team, const CollectiveArgs& args, const char* name) {
  const rma::Fabric& fabric = team.core.fabric();
  const schedule::Shape shape{team.size(), 1};
  try {
    return std::make_unique<device::HostCopies>(
        fabric, name, args.input, schedule::input_bytes(shape, args.call, team.rank()), args.output,
        schedule::output_bytes(shape, args.call, team.rank()), output_of(team, args));
  } catch (const std::bad_alloc&) {
    rma::throw_status(fabric, Status::failure(Code::out_of_memory, "no memory to stage a device's buffer"), {name});
  }
}

/// Runs `work`. If it throws, fails the team, because other ranks may already be in the call.
template <typename Work> void or_fail_all(const OpenTeam& team, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    team.state.schedules().fail(
        Status::failure(error.detail().code, "a rank couldn't stage its buffer", team.core.fabric().rank));
    throw;
  }
}

void take(const OpenTeam& team, const device::HostCopies& copies, const char* name) {
  or_fail_all(team, [&] { rma::require(team.core.fabric(), copies.take(), {name}); });
}

CollectiveArgs with_copies(const CollectiveArgs& args, const device::HostCopies& copies) {
  CollectiveArgs staged = args;
  staged.input = copies.in();
  staged.output = copies.out();
  return staged;
}

/// Runs a blocking call on copies of its buffers.
template <typename Run> void run_staged(const OpenTeam& team, const CollectiveArgs& args, Run&& run) {
  Copies copies;
  or_fail_all(team, [&] { copies = make_copies(team, args, args.operation); });
  take(team, *copies, args.operation);
  run(with_copies(args, *copies));
  rma::require(team.core.fabric(), copies->finish(), {args.operation});
}

/// A call on a machine with devices. The only place of the fallback from devices to hosts: a rank whose device can't
/// run the call stages its buffers at once. A rank whose device can run it, but a peer's can't, has already arrived and
/// continues the same call.
[[gnu::noinline]] void run_with_devices(const OpenTeam& team, const CollectiveArgs& args) {
  if (!device::need_host_copies(args.input, args.output)) return run_on_host(team, args);
  DirectTeam* const node = node_for(team, args);
  if (node == nullptr)
    return run_staged(team, args, [&](const CollectiveArgs& staged) { run_on_network(team, staged); });
  team.state.count_direct(args.call.collective);
  DeviceReduction devices(*node, args);
  if (!devices.can())
    return run_staged(team, args,
                      [&](const CollectiveArgs& staged) { require(team, node_engine::run(*node, staged), staged); });
  bool agreed = false;
  require(team, devices.agree(agreed), args);
  if (agreed) return require(team, devices.run(), args);
  run_staged(team, args,
             [&](const CollectiveArgs& staged) { require(team, node_engine::run_arrived(*node, staged), staged); });
}

/// Called after a mismatch, before any data has moved. Each rank compares its own pairs, and an allgather collects the
/// results. The error names the pairs and both counts.
[[noreturn]] void throw_count_mismatch(const OpenTeam& team, const CollectiveArgs& args) {
  const auto size = static_cast<std::size_t>(team.size());
  std::vector<std::size_t> sent(size);
  run(team, alltoall_args(team.core, args.call.counts.data(), sent.data(), sizeof(std::size_t)));
  const CountMismatch mine = first_count_mismatch(team.rank(), sent, args.call.receive_counts);
  std::vector<CountMismatch> of_each(size);
  run(team, allgather_args(team.core, &mine, of_each.data(), sizeof mine));
  throw count_mismatch_error(team.core, args.operation, merged(of_each), mine);
}

}  // namespace

void throw_node_failure(const OpenTeam& team, const Status& status, const CollectiveArgs& args) {
  team.state.schedules().fail(status);
  team.state.schedules().throw_error(status, args.operation, args.bytes());
}

void run_on_network(const OpenTeam& team, const CollectiveArgs& args) {
  ScheduleTeam& schedules = team.state.schedules();
  const Status status = schedules.run(args);
  if (!status.ok()) [[unlikely]]
    schedules.throw_error(status, args.operation, args.bytes());
}

void run(const OpenTeam& team, const CollectiveArgs& args) {
  if (memory::devices_present()) [[unlikely]]
    return run_with_devices(team, args);
  run_on_host(team, args);
}

/// The engine doesn't depend on the counts, which differ between ranks. Both engines compare the counts first.
void run_alltoallv(const OpenTeam& team, const CollectiveArgs& args) {
  DirectTeam* const node = node_for(team, args);
  CountsOf all;
  const auto run_on_host = [&](const CollectiveArgs& call) {
    if (node != nullptr) {
      team.state.count_direct(Collective::alltoall);
      return require(team, node_engine::alltoallv(*node, call, all), call);
    }
    all = counts_of(team.rank(), call.call.counts, call.call.receive_counts);
    CollectiveArgs comparison =
        allreduce_args(team.core, &all, &all, 1, DType::located_i64, Reduction(combine_counts, nullptr, true));
    comparison.signature = call.signature;
    comparison.operation = call.operation;
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

Request start(const OpenTeam& team, const CollectiveArgs& args, const char* name) {
  ScheduleTeam& schedules = team.state.schedules();
  CollectiveArgs started = args;
  started.signature = args.signature.non_blocking();
  Copies copies;
  if (device::need_host_copies(args.input, args.output)) [[unlikely]] {
    or_fail_all(team, [&] { copies = make_copies(team, args, name); });
    take(team, *copies, name);
    started = with_copies(started, *copies);
  }
  std::uint64_t ticket = 0;
  if (const Status status = schedules.start(started, ticket, std::move(copies)); !status.ok())
    schedules.throw_error(status, name, args.bytes());
  return schedules.request_of(ticket, name);
}

Operation* prepare(const OpenTeam& team, const CollectiveArgs& args, const char* name) {
  ScheduleTeam& schedules = team.state.schedules();
  CollectiveArgs prepared = args;
  prepared.signature = args.signature.non_blocking();
  Copies copies;
  if (device::need_host_copies(args.input, args.output)) [[unlikely]] {
    copies = make_copies(team, args, name);
    prepared = with_copies(prepared, *copies);
  }
  Operation* operation = nullptr;
  if (const Status status = schedules.prepare_kept(prepared, operation, std::move(copies)); !status.ok())
    schedules.throw_error(status, name, args.bytes());
  return operation;
}

Request start_prepared(const OpenTeam& team, Operation& operation, const char* name) {
  ScheduleTeam& schedules = team.state.schedules();
  const auto require = [&](const Status& status) {
    if (!status.ok()) schedules.throw_error(status, name, operation.args().bytes());
  };
  if (operation.copies != nullptr) [[unlikely]] {
    // The progress thread may still complete the last run. Copy the input only after that.
    require(schedules.may_start(operation));
    take(team, *operation.copies, name);
  }
  std::uint64_t ticket = 0;
  require(schedules.start_kept(operation, ticket));
  return schedules.request_of(ticket, name);
}

}  // namespace hmc::collectives
