// barrier: nobody leaves before all have come.
#pragma once

#include "collectives/direct/direct_team.hpp"

namespace hmc::collectives {

base::Status barrier_direct(DirectTeam& team) noexcept;

}  // namespace hmc::collectives
