// The reduction kernels: element by element, in rank order, in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// Reads `ins` (in ascending rank order) once and stores the result into every one of `outs`:
///   outs[j][i] = ins[0][i] op ins[1][i] op ... op ins[in_count - 1][i]
/// Needs in_count >= 1. Pointers may have any alignment, even one that isn't the element's. An output
/// may be one of the inputs (the same address), or begin before it: a kernel goes from front to back, and loads what it
/// combines before it stores. It may not overlap them otherwise.
///
/// Results don't depend on the instruction set, on the alignment, or on how a range is cut into calls:
///  - floats are combined from left to right, without fused or reassociated steps; those of 16 and
///    8 bits are combined in f32 and rounded once (to nearest, ties to even), at the end;
///  - integers wrap around; `avg` of integers is the wrapped sum, divided, rounded toward zero;
///  - `avg` of floats is the sum, divided (in f32 for narrow ones), rounded to nearest;
///  - min and max of floats are IEEE 754-2019 minimum and maximum: a NaN wins, and -0 < +0;
///  - every NaN result is the positive quiet NaN without payload (processors disagree on the rest), but for what is
///    too large for e4m3, which is a NaN with the number's sign;
///  - maxloc and minloc order values as max and min do; of equal ones the lowest index is taken;
///  - land and lor give 0 or 1.
using ReduceKernel = void (*)(void* const* outs, int out_count, const void* const* ins, int in_count,
                              std::size_t count) noexcept;

/// What kernels are compiled for. `baseline` runs everywhere, on x86-64 and elsewhere.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
inline constexpr int instruction_set_count = 3;
const char* name_of(InstructionSet set) noexcept;

/// This build has it and this processor runs it.
bool available(InstructionSet set) noexcept;

/// For the best instruction set of this processor. Null if the operation isn't defined for the type
/// (bitwise and logical ones on floats, maxloc and minloc on what isn't located, the others on what is). Look it up
/// once per call of a collective, not per slice.
ReduceKernel reduce_kernel(DType type, Op op) noexcept;
/// For a given one; null too if it isn't available.
ReduceKernel reduce_kernel(DType type, Op op, InstructionSet set) noexcept;

}  // namespace hmc::collectives
