// allreduce: everyone's elements combined, in rank order, to all.
#pragma once

#include "collectives/args/reduce_call.hpp"
#include "collectives/direct/direct_team.hpp"

namespace hmc::collectives {

/// Throws Error only if the staging can't grow; all else is in the Status.
base::Status allreduce_direct(DirectTeam& team, const ReduceCall& call);
base::Status allreduce_sliced(DirectTeam& team, const ReduceCall& call);  ///< the large form

/// By the devices, where all ranks' can (DeviceReduction) and it is large. Else is_for_host(), and all make the call
/// once more, in host memory.
base::Status allreduce_on_device(DirectTeam& team, const ReduceCall& call, Op op);

}  // namespace hmc::collectives
