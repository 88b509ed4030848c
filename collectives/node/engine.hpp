// The node engine: collectives by load and store, for teams whose ranks all reach each other so.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/node/allgather.hpp"
#include "collectives/node/allreduce.hpp"
#include "collectives/node/broadcast.hpp"
#include "collectives/node/pull.hpp"

namespace hmc::collectives::node_engine {

/// No rank returns before all ranks have arrived.
base::Status barrier(DirectTeam& team, Signature signature) noexcept;

/// Whether this engine can carry out the call: all but those whose blocks don't fit the staging ring. alltoallv has its
/// own form, pull_alltoallv(). All ranks get the same result.
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

/// The rest of a reduction at which all ranks have arrived, but which their devices can't run together. The others
/// treat this rank's buffers, which are host copies now, as staged. Errors as run().
inline base::Status run_arrived(DirectTeam& team, const CollectiveArgs& args) {
  return args.call.collective == schedule::Collective::allreduce ? allreduce_arrived(team, args)
                                                                 : pull_arrived(team, args);
}

}  // namespace hmc::collectives::node_engine
