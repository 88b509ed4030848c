// throw_failure: builds the error of a failed collective. A timeout names the missing ranks and the ranks' states; a
// mismatch names each rank's call.
#pragma once

#include <cstddef>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

[[noreturn]] void throw_failure(const rma::TeamCore& core, ScheduleTeam& team, const base::Status& status,
                                const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
