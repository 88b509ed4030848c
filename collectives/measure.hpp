// Measures the cost model's parameters of a network, once per machine.
#pragma once

#include <optional>

#include "collectives/schedule/cost.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// Collective over the team, takes about 5 ms. Rank 0 and `partner`, on another node, run a ping-pong while the others
/// wait. Throws Error. All ranks return the same:
/// - normally the parameters that rank 0 measured, and `builtin` for all others;
/// - `builtin`, if the measurement isn't plausible;
/// - nothing, if one of the two ranks had to share its core.
std::optional<schedule::CostParameters> measure(rma::TeamCore& team, int partner,
                                                const schedule::CostParameters& builtin);

}  // namespace hmc::collectives
