// located_kernel: maxloc and minloc.
#pragma once

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

/// Null for every other operation. One for all instruction sets: it waits for memory, and pairs don't suit vectors.
ReduceKernel located_kernel(DType type, Op op) noexcept;

}  // namespace hmc::collectives
