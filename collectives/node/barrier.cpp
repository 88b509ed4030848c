// Each rank publishes its arrival in its own line and polls the lines of all others.
#include "collectives/node/barrier.hpp"

namespace hmc::collectives {

base::Status barrier_direct(DirectTeam& team) noexcept {
  if (const base::Status status = team.begin(Signature::make(Kind::barrier, 0)); !status.ok()) return status;
  team.arrive(nullptr, 0);
  return team.wait_arrivals();
}

}  // namespace hmc::collectives
