// divide: the end of an average that was summed step by step.
#pragma once

#include <cstddef>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// data[i] /= ranks, with the rounding that the kernels of `avg` have: integers toward zero, floats to nearest
/// (16-bit ones by way of f32), NaN to the positive quiet one. Any alignment.
void divide(DType type, void* data, std::size_t count, int ranks) noexcept;

}  // namespace hmc::collectives
