// barrier by load and store.
#include "collectives/node/engine.hpp"

namespace hmc::collectives::node_engine {

/// Each rank publishes its arrival in its own line and polls the lines of all peers.
base::Status barrier(DirectTeam& team, Signature signature) noexcept {
  if (const base::Status status = team.begin(signature, 0); !status.ok()) return status;
  team.arrive(nullptr, 0);
  return team.wait_arrivals();
}

}  // namespace hmc::collectives::node_engine
