// divide: the last step of `avg`, if the sum was computed in several steps.
#pragma once

#include <cstddef>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// data[i] /= ranks, with the rounding of the `avg` kernels: integers toward zero, floats to nearest (16-bit and 8-bit
/// ones in f32). A NaN becomes the positive quiet NaN. Any alignment.
void divide(DType type, void* data, std::size_t count, int ranks) noexcept;

}  // namespace hmc::collectives
