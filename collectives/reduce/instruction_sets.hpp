// The interface of each instruction set's translation unit. All are the same source, compiled with different flags.
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

}  // namespace hmc::collectives
