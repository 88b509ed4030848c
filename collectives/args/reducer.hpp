// Reducer: the operation of a reduction: a kernel for this processor or a user function. Looked up once per call.
#pragma once

#include <cstddef>
#include <vector>

#include <hmc/types.hpp>

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

struct Reducer {
  DType type = DType::u8;
  std::size_t element = 1;        ///< bytes per element
  ReduceKernel kernel = nullptr;  ///< null: the user function
  ReduceFunction function = nullptr;
  void* context = nullptr;
};

/// outs[j][i] = ins[0][i] op ins[1][i] op ... for i < count. An output may be one of the inputs. `scratch` holds the
/// user function's accumulator. It keeps its capacity, so that later calls allocate no memory.
void reduce(const Reducer& reducer, void* const* outs, int out_count, const void* const* ins, int in_count,
            std::size_t count, std::vector<std::byte>& scratch) noexcept;

}  // namespace hmc::collectives
