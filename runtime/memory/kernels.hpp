// Kernels: what HMC runs on a vendor's devices, from one source (device_kernels.inl).
//
// They come, in this order: as the build has put them in (nvcc was there); compiled when they are first wanted, by the
// vendor's compiler library; not at all, and then the host does their work. HMC_DEVICE_KERNELS chooses.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/status.hpp"
#include "runtime/memory/failure.hpp"
#include "runtime/memory/kernels/kernel_arguments.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// Loaded per device, when somebody first asks for it. Any thread.
class Kernels {
 public:
  Kernels(const Vendor& vendor, const Failures& failures);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Empty when `device` runs them; loads them.
  std::string why_not(int device) const;
  /// Where they came from: "built in", "NVRTC 13.0"; empty where there are none.
  std::string origin(int device) const;

  // ---- put into `stream`, the vendor's own, of `device`, for which why_not() is empty. The arguments are read before
  // they return. All addresses are the device's.
  base::Status reduce(int device, DType type, const ReduceArguments& call, void* stream) const noexcept;
  base::Status copy_rows(int device, const StridedArguments& call, void* stream) const noexcept;
  base::Status set_flag(int device, const FlagArguments& call, void* stream) const noexcept;
  /// Spins on the device: only for what is certain to come from elsewhere.
  base::Status wait_flag(int device, const FlagArguments& call, void* stream) const noexcept;

  /// Words of registered host memory; see KernelCalls.
  const KernelCalls& calls() const noexcept { return calls_; }
  const Failures& failures() const noexcept { return failures_; }
  const Vendor& vendor() const noexcept { return vendor_; }

 private:
  static constexpr std::size_t copy_rows_index = static_cast<std::size_t>(dtype_count);
  static constexpr std::size_t function_count = copy_rows_index + 3;
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
  base::Status launch(int device, std::size_t function, std::uint64_t work, void* arguments,
                      void* stream) const noexcept;

  const Vendor& vendor_;
  const KernelCalls& calls_;
  const Failures& failures_;
  mutable std::vector<std::unique_ptr<Loaded>> devices_;
};

/// Words for a human: HMC_DEVICE_KERNELS=none, or why a device has no kernels.
inline constexpr const char* kernels_off = "turned off by HMC_DEVICE_KERNELS=none";

}  // namespace hmc::memory
