// The node engine: collectives by load and store, for teams in which all ranks have load/store access to each other.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/node/allgather.hpp"
#include "collectives/node/allreduce.hpp"
#include "collectives/node/broadcast.hpp"
#include "collectives/node/pull.hpp"

namespace hmc::collectives::node_engine {

/// No rank returns before all ranks have arrived.
base::Status barrier(DirectTeam& team, Signature signature) noexcept;

/// True if this engine can run the call. False if the blocks don't fit the staging ring, and for alltoallv, which has a
/// separate function, pull_alltoallv(). All ranks get the same result.
inline bool can(const DirectTeam& team, const CollectiveArgs& args) noexcept {
  switch (args.call.collective) {
    case schedule::Collective::barrier:
    case schedule::Collective::broadcast:
    case schedule::Collective::allreduce: return true;
    case schedule::Collective::allgather: return !args.call.irregular() || pulls(team, args);
    default: return pulls(team, args);
  }
}

/// Throws Error only if growing the staging fails; other errors are in the Status.
inline base::Status run(DirectTeam& team, const CollectiveArgs& args) {
  switch (args.call.collective) {
    case schedule::Collective::barrier: return barrier(team, args.signature);
    case schedule::Collective::broadcast: return broadcast_direct(team, args);
    case schedule::Collective::allreduce: return allreduce_direct(team, args);
    case schedule::Collective::allgather:
      return args.call.irregular() ? pull(team, args) : allgather_direct(team, args);
    default: return pull(team, args);
  }
}

/// Fallback for a reduction that the devices can't run. Requires that all ranks have arrived, and that the arguments
/// name host copies of this rank's device buffers. The peers treat these buffers as staged. Errors as run().
inline base::Status run_arrived(DirectTeam& team, const CollectiveArgs& args) {
  return args.call.collective == schedule::Collective::allreduce ? allreduce_arrived(team, args)
                                                                 : pull_arrived(team, args);
}

}  // namespace hmc::collectives::node_engine
