// allgather by load and store.
#pragma once

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

base::Status allgather_direct(DirectTeam& team, const CollectiveArgs& args) noexcept;

}  // namespace hmc::collectives
