// Kernels that the build embeds in the library: always the source, and the binaries if nvcc or hipcc was found.
#pragma once

#include <hmc/types.hpp>

namespace hmc::memory {

/// The text of device_kernels.inl.
const char* kernels_source() noexcept;
/// The binary for the vendor of `type`: a CUDA fat binary or a bundle of HIP code objects; null if this build has none.
const void* embedded_kernels(MemoryType type) noexcept;
/// Empty if embedded_kernels(type) isn't null, otherwise the reason.
const char* why_no_embedded_kernels(MemoryType type) noexcept;

}  // namespace hmc::memory
