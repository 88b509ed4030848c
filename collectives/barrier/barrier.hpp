// barrier: nobody leaves before all have come.
#pragma once

#include "collectives/direct/direct_team.hpp"
#include "collectives/rounds/round_team.hpp"

namespace hmc::collectives {

base::Status barrier_direct(DirectTeam& team) noexcept;
base::Status barrier_rounds(RoundTeam& team) noexcept;

}  // namespace hmc::collectives
