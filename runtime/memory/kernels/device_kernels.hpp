// The device kernels (device_kernels.inl): the host's layout of their arguments, and what the build embeds in the
// library: always the source, and the binaries if nvcc or hipcc was found.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/types.hpp>

namespace hmc::memory {

/// As in collectives/reduce: outs[j][i] = ins[0][i] op ins[1][i] op ...
struct ReduceArguments {
  static constexpr int most = 64;  ///< maximum number of inputs, and of outputs
  const void* ins[most];
  void* outs[most];
  std::int32_t in_count;
  std::int32_t out_count;
  std::int32_t op;
  std::int32_t aligned;
  std::uint64_t count;
};
static_assert(sizeof(ReduceArguments) == 1048 && offsetof(ReduceArguments, count) == 1040);

/// The text of device_kernels.inl.
const char* kernels_source() noexcept;
/// The binary for the vendor of `type`: a CUDA fat binary or a bundle of HIP code objects; null if this build has none.
const void* embedded_kernels(MemoryType type) noexcept;
/// Empty if embedded_kernels(type) isn't null, otherwise the reason.
const char* why_no_embedded_kernels(MemoryType type) noexcept;

}  // namespace hmc::memory
