// What the build has put into the library: the kernels' text always, their binaries where nvcc or hipcc was there.
#pragma once

#include <hmc/types.hpp>

namespace hmc::memory {

/// device_kernels.inl, as it is.
const char* kernels_source() noexcept;
/// For that vendor's devices: CUDA's fat binary, a bundle of HIP's code objects; null where this build has none.
const void* embedded_kernels(MemoryType type) noexcept;
/// Empty where there are such.
const char* why_no_embedded_kernels(MemoryType type) noexcept;

}  // namespace hmc::memory
