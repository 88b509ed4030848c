// pull: the collectives in which every rank takes what it needs out of the others' inputs.
#pragma once

#include "collectives/direct/direct_team.hpp"
#include "collectives/execute/given.hpp"

namespace hmc::collectives {

/// gather, scatter, alltoall, reduce, reduce_scatter, scan and exscan, but for their v-forms.
bool pulls(const DirectTeam& team, const Given& given) noexcept;
base::Status pull(DirectTeam& team, const Given& given) noexcept;

}  // namespace hmc::collectives
