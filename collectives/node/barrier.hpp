// barrier: no rank returns before all ranks have arrived.
#pragma once

#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

base::Status barrier_direct(DirectTeam& team) noexcept;

}  // namespace hmc::collectives
