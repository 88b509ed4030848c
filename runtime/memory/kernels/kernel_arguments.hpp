// The host's layout of the arguments of the kernels in device_kernels.inl.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hmc::memory {

/// As in collectives/reduce: outs[j][i] = ins[0][i] op ins[1][i] op ...
struct ReduceArguments {
  static constexpr int most = 64;  ///< maximum of inputs and of outputs
  const void* ins[most];
  void* outs[most];
  std::int32_t in_count;
  std::int32_t out_count;
  std::int32_t op;
  std::int32_t aligned;
  std::uint64_t count;
};
/// Copies `rows` rows of `row_bytes` between two pitches. It packs if `to_pitch` is `row_bytes`.
struct StridedArguments {
  void* to;
  const void* from;
  std::uint64_t rows, row_bytes, to_pitch, from_pitch;
};
struct FlagArguments {
  std::uint64_t* word;
  std::uint64_t value;
};
static_assert(sizeof(ReduceArguments) == 1048 && offsetof(ReduceArguments, count) == 1040);
static_assert(sizeof(StridedArguments) == 48 && sizeof(FlagArguments) == 16);

}  // namespace hmc::memory
