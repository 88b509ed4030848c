// The world's window: the memory of its collectives, and of the messages of all teams.
#pragma once

#include "collectives/team/team_object.hpp"

namespace hmc::job {

/// Collective. Creates the window, and over it the world's collectives and messages. Throws Error.
void open_world(collectives::TeamObject& world, const collectives::Settings& settings);

}  // namespace hmc::job
