// The tables of kernels: one per instruction set, from the same source compiled with different flags, and the kernels
// of maxloc and minloc.
#pragma once

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

namespace baseline {
ReduceKernel find_kernel(DType type, Op op) noexcept;
}
#if defined(__x86_64__)
namespace avx2 {
ReduceKernel find_kernel(DType type, Op op) noexcept;
}
namespace avx512 {
ReduceKernel find_kernel(DType type, Op op) noexcept;
}
#endif

/// Null for every other operation. One kernel serves all instruction sets: it is limited by memory bandwidth, and
/// pairs don't vectorize well.
ReduceKernel located_kernel(DType type, Op op) noexcept;

}  // namespace hmc::collectives
