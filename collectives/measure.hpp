// Measures what the model needs to know of a network, once per machine.
#pragma once

#include <optional>

#include "collectives/schedule/cost.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

/// Collective over the team, in about 5 ms: rank 0 and `partner`, on another node, play ping-pong while the others
/// wait. All get what rank 0 has measured, and what `builtin` says of all else; `builtin`, where that can't be right
/// (nobody gives such a machine a schedule); nothing, where one of the two had to share its core. Throws Error.
std::optional<schedule::Parameters> measure(window::TeamCore& team, int partner, const schedule::Parameters& builtin);

}  // namespace hmc::collectives
