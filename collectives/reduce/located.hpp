// located_kernel: the kernels of maxloc and minloc.
#pragma once

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

/// Null for every other operation. One kernel serves all instruction sets: it is limited by memory bandwidth, and
/// pairs don't vectorize well.
ReduceKernel located_kernel(DType type, Op op) noexcept;

}  // namespace hmc::collectives
