// failure_error: the error of a failed collective.
#pragma once

#include <cstddef>

#include "collectives/mismatch/team_failure.hpp"

namespace hmc::collectives {

/// `status`: the cause, as determined by TeamFailure::explain(). The error of a timeout names the missing ranks and the
/// ranks' states. The error of a mismatch names each rank's call.
[[noreturn]] void throw_failure_error(const rma::TeamCore& team, const TeamFailure& failure, const base::Status& status,
                                      const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
