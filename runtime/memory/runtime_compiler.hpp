// The vendors' compiler libraries, NVRTC and hipRTC, opened when kernels are first used.
#pragma once

#include <string>

#include <hmc/types.hpp>

#include "runtime/memory/library.hpp"

namespace hmc::memory {

struct CompiledKernels {
  std::string why_not;  ///< empty: `image` holds a module that the driver can load
  std::string by;       ///< "NVRTC 13.0"
  std::string image;
};
/// `architecture`: the compiler's name of the architecture; empty: that of the current device.
CompiledKernels compile_kernels(MemoryType type, const std::string& architecture);

inline constexpr LibraryNames nvrtc_library{"HMC_NVRTC_LIBRARY",
                                            {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}};
inline constexpr LibraryNames hiprtc_library{
    "HMC_HIPRTC_LIBRARY", {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libgalaxyhip.so.5", "libamdhip64.so"}};

}  // namespace hmc::memory
