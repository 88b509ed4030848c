// ReduceCall: the arguments of a reduction, resolved once.
#pragma once

#include <cstddef>
#include <vector>

#include <hmc/types.hpp>

#include "collectives/args/signature.hpp"
#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

struct ReduceCall {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  DType type = DType::u8;
  std::size_t element = 1;        ///< bytes per element
  ReduceKernel kernel = nullptr;  ///< null: the user function
  ReduceFunction function = nullptr;
  void* context = nullptr;
  Signature signature;

  std::size_t bytes() const noexcept { return count * element; }
};

/// outs[j][i] = ins[0][i] op ins[1][i] op ... for i < count. An output may be one of the inputs. `scratch` holds the
/// user function's accumulator, so that the steady state doesn't allocate memory.
void reduce(const ReduceCall& call, void* const* outs, int out_count, const void* const* ins, int in_count,
            std::size_t count, std::vector<std::byte>& scratch) noexcept;

}  // namespace hmc::collectives
