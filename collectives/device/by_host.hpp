// Calls on streams that the progress thread runs in host memory.
#pragma once

#include <memory>

#include "collectives/team/team_object.hpp"

namespace hmc::collectives {

/// Collective. `buffer` must be in memory of the streams' device. Throws Error{unsupported} on every rank if a rank
/// doesn't support these calls.
std::unique_ptr<CallsOnStreams> make_by_host(TeamObject& team, const char* operation, const void* buffer);

}  // namespace hmc::collectives
