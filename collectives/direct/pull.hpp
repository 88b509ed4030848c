// pull: the collectives in which every rank takes what it needs out of the others' inputs.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/direct/direct_team.hpp"

namespace hmc::collectives {

/// gather, scatter, alltoall, reduce, reduce_scatter, scan and exscan; gatherv, scatterv, allgatherv, reduce_scatterv.
bool pulls(const DirectTeam& team, const CollectiveArgs& args) noexcept;
/// Throws Error if ranks can't agree on a larger staging.
base::Status pull(DirectTeam& team, const CollectiveArgs& args);
/// Large reductions that pull() would carry out, by the devices, where all ranks' can (DeviceReduction). Else
/// is_for_host(); and if this rank `has_arrived` then, the call goes on with pull_arrived() of a copy in host memory.
base::Status pull_on_device(DirectTeam& team, const CollectiveArgs& args, bool& has_arrived);
base::Status pull_arrived(DirectTeam& team, const CollectiveArgs& args) noexcept;

/// What all know when the ranks have shown each other their counts.
struct Compared {
  CountsOf all;
  /// The call is carried out. Else the counts don't match, or blocks would go in crumbs: nothing was moved.
  bool is_done = false;
};
/// alltoallv, in which each rank has counts of its own.
base::Status pull_alltoallv(DirectTeam& team, const CollectiveArgs& args, Compared& compared) noexcept;

}  // namespace hmc::collectives
