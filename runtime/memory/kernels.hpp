// Kernels: loads and launches HMC's device kernels (device_kernels.inl). HMC_DEVICE_KERNELS selects their origin.
// Default order:
// - embedded by the build, if nvcc or hipcc was found
// - compiled at first use by the vendor's compiler library (NVRTC, hipRTC)
// - none: the host computes
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/status.hpp"
#include "runtime/memory/kernels/device_kernels.hpp"
#include "runtime/memory/library.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// Loaded per device at first use. Any thread.
class Kernels {
 public:
  Kernels(const Vendor& vendor, const Failures& failures);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Empty if `device` can run the kernels. The first call loads them.
  std::string why_not(int device) const;
  /// The origin of the kernels: "built in", "NVRTC 13.0"; empty if there are none.
  std::string origin(int device) const;

  // ---- launches on `stream`, the vendor's handle of a stream of `device`. why_not(device) must be empty. The
  // arguments are read before the call returns. All addresses are device addresses.
  base::Status reduce(int device, DType type, const ReduceArguments& call, void* stream) const noexcept;

  /// Words of registered host memory; see KernelCalls.
  const KernelCalls& calls() const noexcept { return calls_; }
  const Failures& failures() const noexcept { return failures_; }
  const Vendor& vendor() const noexcept { return vendor_; }

 private:
  static constexpr std::size_t function_count = static_cast<std::size_t>(dtype_count);
  struct Loaded {
    std::once_flag once;
    std::string why_not;
    std::string origin;
    void* module = nullptr;
    std::array<void*, function_count> functions{};
  };
  Loaded& loaded(int device) const;
  void load(Loaded& into, int device) const;
  std::string load_image(Loaded& into, int device, const void* image) const;

  const Vendor& vendor_;
  const KernelCalls& calls_;
  const Failures& failures_;
  mutable std::vector<std::unique_ptr<Loaded>> devices_;
};

/// Kernels::why_not under HMC_DEVICE_KERNELS=none.
inline constexpr const char* kernels_off = "turned off by HMC_DEVICE_KERNELS=none";

/// The result of the vendors' compiler libraries, NVRTC and hipRTC, which are opened when kernels are first used.
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
