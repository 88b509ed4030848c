// throw_failure: throws the error of a failed collective. If the awaited rank failed in another team, throws that
// team's error.
#pragma once

#include <cstddef>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

[[noreturn]] void throw_failure(const rma::TeamCore& core, ScheduleTeam& team, const base::Status& status,
                                const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
