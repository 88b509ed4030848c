// A put with a signal that is begun here and looked at later: what schedules are executed with.
#pragma once

#include "runtime/window/core.hpp"

namespace hmc::window {

/// Unchecked and noexcept, as try_put_signal. The source may be reused once `look` says ok.
base::Status begin_put_signal(const Core& core, int rank, std::uint64_t offset, const void* source, std::size_t bytes,
                              std::uint64_t signal_offset, std::uint64_t value, std::uint64_t& ticket) noexcept;
/// ok, in_progress, or what went wrong; drives the wire if it is in progress. Done with a ticket that isn't.
base::Status look(const Core& core, int rank, std::uint64_t ticket) noexcept;
/// Gives it up: the source isn't read any more.
void abandon(const Core& core, int rank, std::uint64_t ticket) noexcept;

}  // namespace hmc::window
