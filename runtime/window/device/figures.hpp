// What ways into device memory have been measured to do.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/window/device/device_part.hpp"
#include "runtime/window/device_memory.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// In a path's `why`, before the reason.
inline constexpr const char* not_measured = "; not measured: ";

/// Into `path`: a peer's memory that is mapped here. Once for a peer's device and kind of sharing; anew for a larger
/// part than was at hand then.
void measure_mapping(Fabric& fabric, int peer, const DeviceOffer& offer, const DeviceMemory& memory, Path& path);

/// A part of `bytes`, by `read(to, bytes)` of its beginning into the host's memory. Throws what that throws.
Fabric::Figures measure_reading(std::uint64_t bytes, const std::function<void(void*, std::size_t)>& read);

}  // namespace hmc::window
