// Factories of the implementations of CallsOnStreams.
#pragma once

#include <memory>

#include "collectives/state/calls_on_streams.hpp"
#include "collectives/state/state.hpp"

namespace hmc::collectives {

// Collective. `buffer` must be in memory of the streams' device. Throw Error{unsupported} on every rank if a rank
// doesn't support the implementation.
std::unique_ptr<CallsOnStreams> make_by_words(const OpenTeam& team, const char* operation, const void* buffer);
std::unique_ptr<CallsOnStreams> make_by_host(const OpenTeam& team, const char* operation, const void* buffer);

}  // namespace hmc::collectives
