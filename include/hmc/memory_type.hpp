// MemoryType: the kinds of memory. For C++14 and later.
#pragma once

#if defined(_WIN32)
#error "HMC runs on Linux"
#endif
#define HMC_API __attribute__((visibility("default")))

namespace hmc {

/// The kind of memory that holds a buffer. The numbers never change: programs may store them.
enum class MemoryType : int {
  /// The memory of the machine's accelerator: the first of NVIDIA_GPU, AMD_GPU, MOORE_GPU, CAMBRICON_MLU and ASCEND_NPU
  /// whose library finds a device, else CPU. Each process detects it once. DEFAULT is never OPENCL, because an OpenCL
  /// device may be the CPU.
  DEFAULT = 0,
  CPU = 1,
  NVIDIA_GPU = 2,
  AMD_GPU = 3,
  CAMBRICON_MLU = 4,
  MOORE_GPU = 5,
  ASCEND_NPU = 6,
  HUAWEI_ASCEND_NPU = ASCEND_NPU,  ///< the name in the first version of <hmc.h>
  OPENCL = 7,
  // Memory that both the host and the vendor's devices can load from and store to. PINNED memory is page-locked host
  // memory. MANAGED memory migrates between the host and a device.
  NVIDIA_PINNED = 8,
  NVIDIA_MANAGED = 9,
  AMD_PINNED = 10,
  AMD_MANAGED = 11,
};
/// True if the host can load from and store to memory of this type. False for DEFAULT, which depends on the machine.
constexpr bool host_accessible(MemoryType type) noexcept {
  return type == MemoryType::CPU || type >= MemoryType::NVIDIA_PINNED;
}
HMC_API const char* name_of(MemoryType type) noexcept;

}  // namespace hmc
