// The implementations of CallsOnStreams.
#pragma once

#include <memory>

#include "collectives/state/calls.hpp"
#include "collectives/state/calls_on_streams.hpp"

namespace hmc::collectives {

// Collective; `buffer` lies on the device that the streams are of. Throw Error{unsupported} on every rank where some
// rank can't.
std::unique_ptr<CallsOnStreams> make_by_words(const OpenTeam& team, const char* operation, const void* buffer);
std::unique_ptr<CallsOnStreams> make_by_host(const OpenTeam& team, const char* operation, const void* buffer);

}  // namespace hmc::collectives
