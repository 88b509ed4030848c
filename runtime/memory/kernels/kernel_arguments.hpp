// The host's layout of the arguments of the kernels in device_kernels.inl.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace hmc::memory
