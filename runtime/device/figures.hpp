// Measurements of the paths to device memory.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/device/device_memory.hpp"
#include "runtime/device/device_part.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::rma {

/// Precedes the reason in a path's `why`.
inline constexpr const char* not_measured = "; not measured: ";

/// Measures access to a peer's memory that is mapped in this process, and stores the result in `path`. One measurement
/// per peer, device and method of sharing. It is repeated if a later part allows a larger block.
void measure_mapping(Fabric& fabric, int peer, const DeviceOffer& offer, const DeviceMemory& memory, Path& path);

/// Measures access to a part of `bytes` by calls of `read(to, bytes)`, which copy its first bytes to host memory.
/// Exceptions of `read` are passed to the caller.
Fabric::Figures measure_reading(std::uint64_t bytes, const std::function<void(void*, std::size_t)>& read);

}  // namespace hmc::rma
