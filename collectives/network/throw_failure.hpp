// throw_failure: throws the error of a failed collective, or that of another team in which the awaited rank failed.
#pragma once

#include <cstddef>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

[[noreturn]] void throw_failure(const rma::TeamCore& core, ScheduleTeam& team, const base::Status& status,
                                const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
