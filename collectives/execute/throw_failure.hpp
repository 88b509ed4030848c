// What a failed collective says: who is missing and in what, or who called what.
#pragma once

#include <cstddef>

#include "collectives/execute/schedule_team.hpp"

namespace hmc::collectives {

[[noreturn]] void throw_failure(const window::TeamCore& core, ScheduleTeam& team, const base::Status& status,
                                const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
