// Every algorithm's build function; registry.cpp says what each is good for.
#pragma once

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

using Build = void(const Shape& shape, const Call& call, int rank, Schedule& out);

Build barrier_dissemination;
Build broadcast_binomial;

}  // namespace hmc::collectives::schedule
