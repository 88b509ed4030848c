// allreduce: combines all ranks' elements, in rank order, and returns the result on all ranks.
#pragma once

#include "collectives/args/reduce_call.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// Throws Error only if growing the staging fails; other errors are in the Status.
base::Status allreduce_direct(DirectTeam& team, const ReduceCall& call);
base::Status allreduce_sliced(DirectTeam& team, const ReduceCall& call);  ///< for large vectors

/// Runs large calls on the devices, if all ranks can (DeviceReduction). Else the status is is_for_host(), and all ranks
/// make the call again, in host memory.
base::Status allreduce_on_device(DirectTeam& team, const ReduceCall& call, Op op);

}  // namespace hmc::collectives
