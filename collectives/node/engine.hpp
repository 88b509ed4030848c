// The node engine: collectives by load and store, for teams in which all ranks have load/store access to each other.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives::node_engine {

// ---- one function per file. Those that aren't noexcept throw Error on every rank if growing the staging fails; other
// errors are in the Status.

/// No rank returns before all ranks have arrived.
base::Status barrier(DirectTeam& team, Signature signature) noexcept;
base::Status broadcast(DirectTeam& team, const CollectiveArgs& args) noexcept;
base::Status allgather(DirectTeam& team, const CollectiveArgs& args) noexcept;
/// Combines the elements in rank order.
base::Status allreduce(DirectTeam& team, const CollectiveArgs& args);
/// gather, scatter, alltoall, reduce, reduce_scatter, scan, exscan, gatherv, scatterv, allgatherv, reduce_scatterv:
/// each rank copies the blocks that it needs from its peers' inputs.
base::Status pull(DirectTeam& team, const CollectiveArgs& args);
/// True if the blocks of such a call, or of an alltoallv, fit a slot or the staging ring.
bool can_pull(const DirectTeam& team, const CollectiveArgs& args) noexcept;
/// alltoallv: the ranks exchange their counts with their arrivals. Sets `all`, equal on all ranks. If the counts don't
/// match (all.balance isn't 0), returns ok, and no data has moved.
base::Status alltoallv(DirectTeam& team, const CollectiveArgs& args, CountsOf& all) noexcept;

// A large reduction that the devices could not run after all: by staging, on every rank. Requires that all ranks have
// arrived, and that the arguments name host copies of this rank's device buffers. The peers treat these buffers as
// staged.
base::Status allreduce_after_devices(DirectTeam& team, const CollectiveArgs& args);
base::Status pull_after_devices(DirectTeam& team, const CollectiveArgs& args) noexcept;

// ---- the engine

/// True if this engine can run the call. All ranks get the same result.
inline bool can(const DirectTeam& team, const CollectiveArgs& args) noexcept {
  switch (args.call.collective) {
    case CollectiveKind::barrier:
    case CollectiveKind::broadcast:
    case CollectiveKind::allreduce: return true;
    case CollectiveKind::allgather: return !args.call.irregular() || can_pull(team, args);
    default: return can_pull(team, args);
  }
}

/// Any call except alltoallv.
inline base::Status run(DirectTeam& team, const CollectiveArgs& args) {
  switch (args.call.collective) {
    case CollectiveKind::barrier: return barrier(team, args.signature);
    case CollectiveKind::broadcast: return broadcast(team, args);
    case CollectiveKind::allreduce: return allreduce(team, args);
    case CollectiveKind::allgather: return args.call.irregular() ? pull(team, args) : allgather(team, args);
    default: return pull(team, args);
  }
}

inline base::Status run_after_devices(DirectTeam& team, const CollectiveArgs& args) {
  return args.call.collective == CollectiveKind::allreduce ? allreduce_after_devices(team, args)
                                                           : pull_after_devices(team, args);
}

}  // namespace hmc::collectives::node_engine
