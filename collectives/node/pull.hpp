// pull: the collectives in which every rank copies what it needs from the others' inputs.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// True for gather, scatter, alltoall, reduce, reduce_scatter, scan and exscan; gatherv, scatterv, allgatherv,
/// reduce_scatterv; unless blocks don't fit the staging ring. All ranks get the same result.
bool pulls(const DirectTeam& team, const CollectiveArgs& args) noexcept;
/// Throws Error if growing the staging fails on the ranks.
base::Status pull(DirectTeam& team, const CollectiveArgs& args);
/// The rest of a reduction that the devices couldn't run: all ranks have arrived, and treat this rank's input, which is
/// a copy now, as staged.
base::Status pull_arrived(DirectTeam& team, const CollectiveArgs& args) noexcept;

/// The result of the exchange of counts, equal on all ranks.
struct Compared {
  CountsOf all;
  /// The call is complete. False: the counts don't match, or the ring's chunks would be too small; no data has moved.
  bool is_done = false;
};
/// alltoallv: each rank has its own counts.
base::Status pull_alltoallv(DirectTeam& team, const CollectiveArgs& args, Compared& compared) noexcept;

}  // namespace hmc::collectives
