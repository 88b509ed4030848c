// Reductions: kernels that combine elements in rank order, in registers; the operation of a call (Reducer); the
// division of an average.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// Reads `ins` (in ascending rank order) once and stores the result into each of `outs`:
///   outs[j][i] = ins[0][i] op ins[1][i] op ... op ins[in_count - 1][i]
/// Requires in_count >= 1. Pointers may have any alignment, even less than the element's. An output may have the
/// address of an input, or begin before it: a kernel runs from front to back and loads all inputs before it stores.
/// Other overlaps aren't allowed.
///
/// Results don't depend on the instruction set, on the alignment, or on how a range is split into calls:
///  - floats are combined from left to right, without fused or reassociated steps; those of 16 and
///    8 bits are combined in f32 and rounded once (to nearest, ties to even), at the end;
///  - integers wrap around; `avg` of integers is the wrapped sum, divided, rounded toward zero;
///  - `avg` of floats is the sum, divided (in f32 for narrow ones), rounded to nearest;
///  - min and max of floats are IEEE 754-2019 minimum and maximum: a NaN propagates, and -0 < +0;
///  - every NaN result is the positive quiet NaN without payload, because processors differ in sign and payload.
///    Exception: overflow of e4m3 is a NaN with the number's sign;
///  - maxloc and minloc order values as max and min do; among equal values they return the lowest index;
///  - land and lor return 0 or 1.
using ReduceKernel = void (*)(void* const* outs, int out_count, const void* const* ins, int in_count,
                              std::size_t count) noexcept;

/// The targets of the kernels. `baseline` runs on every processor, x86-64 or not.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
inline constexpr int instruction_set_count = 3;
const char* name_of(InstructionSet set) noexcept;

/// True if this build contains the set and this processor supports it.
bool available(InstructionSet set) noexcept;

/// The kernel for the best instruction set of this processor. Null if the operation isn't defined for the type:
/// bitwise and logical operations on floats, maxloc and minloc on other than located types, other operations on
/// located types. Look it up once per collective, not per slice.
ReduceKernel reduce_kernel(DType type, Op op) noexcept;
/// The kernel for one instruction set; null also if the set isn't available.
ReduceKernel reduce_kernel(DType type, Op op, InstructionSet set) noexcept;

/// data[i] /= ranks, with the rounding of the `avg` kernels: integers toward zero, floats to nearest (16-bit and 8-bit
/// ones in f32). A NaN becomes the positive quiet NaN. Any alignment.
void divide(DType type, void* data, std::size_t count, int ranks) noexcept;

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
