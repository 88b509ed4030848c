// Device buffers of a call that runs in host memory: copies of them, which the engines then use.
#pragma once

#include <memory>
#include <utility>

#include "collectives/args/collective_args.hpp"
#include "collectives/team/team_object.hpp"
#include "runtime/device/host_copies.hpp"

namespace hmc::collectives {

using Copies = std::unique_ptr<device::HostCopies>;

/// Allocates copies of the buffers that the host can't access, and puts them into `args` in place of these buffers;
/// copies nothing yet. Throws Error.
Copies replace_buffers(const TeamObject& team, CollectiveArgs& args);

/// Runs `work`. If it throws, fails the team, because other ranks may already be in the call.
template <typename Work> void or_fail_all(TeamObject& team, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    team.schedules().fail(
        base::Status::failure(error.detail().code, "a rank couldn't stage its buffer", team.fabric().rank));
    throw;
  }
}
/// Copies the input from the device.
void take(TeamObject& team, const device::HostCopies& copies, const char* operation);

/// Runs a blocking call on copies of its buffers.
template <typename Run> void run_staged(TeamObject& team, const CollectiveArgs& args, Run&& run) {
  CollectiveArgs staged = args;
  Copies copies;
  or_fail_all(team, [&] { copies = replace_buffers(team, staged); });
  take(team, *copies, args.operation);
  run(std::as_const(staged));
  rma::require(team.fabric(), copies->finish(), {args.operation});
}

}  // namespace hmc::collectives
