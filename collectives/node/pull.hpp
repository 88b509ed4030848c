// pull: the collectives in which each rank copies the blocks that it needs from its peers' inputs.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// True if pull() can run the call. All ranks get the same result. Conditions:
/// - gather, scatter, alltoall, reduce, reduce_scatter, scan, exscan, gatherv, scatterv, allgatherv or reduce_scatterv;
/// - the blocks fit a slot or the staging ring.
bool pulls(const DirectTeam& team, const CollectiveArgs& args) noexcept;
/// Throws Error on every rank if growing the staging fails.
base::Status pull(DirectTeam& team, const CollectiveArgs& args);
/// Fallback for a reduction that the devices can't run. Requires that all ranks have arrived, and that the arguments
/// name a host copy of this rank's input. The peers treat this input as staged.
base::Status pull_arrived(DirectTeam& team, const CollectiveArgs& args) noexcept;

/// The result of the exchange of counts, equal on all ranks.
struct Compared {
  CountsOf all;
  /// True if the call is complete. False if the counts don't match or the ring's chunks would be too small; then no
  /// data has moved.
  bool is_done = false;
};
/// alltoallv: each rank has its own counts.
base::Status pull_alltoallv(DirectTeam& team, const CollectiveArgs& args, Compared& compared) noexcept;

}  // namespace hmc::collectives
