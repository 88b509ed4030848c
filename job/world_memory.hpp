// The world's window: the memory of its collectives, and of the messages of all teams.
#pragma once

#include "collectives/team/state.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::job {

/// Collective. Creates the window, and over it the world's collectives and messages. Throws Error.
void open_world(rma::TeamCore& world, const collectives::Settings& settings);

}  // namespace hmc::job
