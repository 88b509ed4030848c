// DLPack's tensors with a version. nanobind has the tensor itself.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

namespace hmc::python {

/// The content of a "dltensor_versioned" capsule (DLPack 1.0). A "dltensor" capsule (before 1.0) has LegacyTensor.
struct VersionedTensor {
  std::uint32_t major = 1, minor = 0;
  void* context = nullptr;
  void (*deleter)(VersionedTensor*) = nullptr;
  std::uint64_t flags = 0;
  nanobind::dlpack::dltensor tensor;
  static constexpr std::uint64_t read_only = 1, is_copied = 2;
};
struct LegacyTensor {
  nanobind::dlpack::dltensor tensor;
  void* context = nullptr;
  void (*deleter)(LegacyTensor*) = nullptr;
};

/// DLPack's numbers of the kinds of memory.
namespace dlpack_device {
inline constexpr int cpu = 1, cuda = 2, cuda_pinned = 3, opencl = 4, rocm = 10, rocm_pinned = 11, cuda_managed = 13;
}  // namespace dlpack_device

}  // namespace hmc::python
