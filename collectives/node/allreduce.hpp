// allreduce: combines all ranks' elements, in rank order, and returns the result on all ranks.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// Throws Error only if growing the staging fails; other errors are in the Status.
base::Status allreduce_direct(DirectTeam& team, const CollectiveArgs& args);
base::Status allreduce_sliced(DirectTeam& team, const CollectiveArgs& args);  ///< for large vectors
/// The rest of a large call that the devices couldn't run: all ranks have arrived, and treat this rank's buffers, which
/// are copies now, as staged.
base::Status allreduce_arrived(DirectTeam& team, const CollectiveArgs& args);

}  // namespace hmc::collectives
