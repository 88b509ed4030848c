// allreduce by load and store. Combines the elements in rank order.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// Throws Error only if growing the staging fails; other errors are in the Status.
base::Status allreduce_direct(DirectTeam& team, const CollectiveArgs& args);
base::Status allreduce_sliced(DirectTeam& team, const CollectiveArgs& args);  ///< for large vectors
/// Fallback for a large call that the devices can't run. Requires:
/// - all ranks have arrived;
/// - the arguments name host copies of this rank's device buffers. The peers treat these buffers as staged.
base::Status allreduce_arrived(DirectTeam& team, const CollectiveArgs& args);

}  // namespace hmc::collectives
