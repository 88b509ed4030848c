// Inputs for the reduction tests: random values mixed with special values that naive kernels get wrong.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <hmc/types.hpp>

#include "tests/unit/collectives/reduce_reference.hpp"

namespace hmc::collectives {

/// All except the located types and their operations.
inline constexpr std::array all_types{DType::i8,  DType::u8,  DType::i16,  DType::u16, DType::i32,
                                      DType::u32, DType::i64, DType::u64,  DType::f16, DType::bf16,
                                      DType::f32, DType::f64, DType::e4m3, DType::e5m2};
inline constexpr std::array located_types{DType::located_i32, DType::located_i64, DType::located_f32,
                                          DType::located_f64};
inline constexpr std::array all_ops{Op::sum,  Op::prod, Op::min,  Op::max,  Op::avg,
                                    Op::band, Op::bor,  Op::bxor, Op::land, Op::lor};
inline constexpr std::array located_ops{Op::maxloc, Op::minloc};
static_assert(all_types.size() + located_types.size() == dtype_count);
static_assert(all_ops.size() + located_ops.size() == op_count);

constexpr bool is_defined(DType type, Op op) {
  if (is_located(type) || op >= Op::maxloc) return is_located(type) && op >= Op::maxloc;
  return op <= Op::avg || !is_float(type);
}

/// Calls f with a value of the C++ type of `type`.
template <typename F> void with_type(DType type, F&& f) {
  switch (type) {
    case DType::i8: return f(std::int8_t{});
    case DType::u8: return f(std::uint8_t{});
    case DType::i16: return f(std::int16_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::u32: return f(std::uint32_t{});
    case DType::i64: return f(std::int64_t{});
    case DType::u64: return f(std::uint64_t{});
    case DType::f16: return f(float16{});
    case DType::bf16: return f(bfloat16{});
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::e4m3: return f(float8_e4m3{});
    case DType::e5m2: return f(float8_e5m2{});
    default: return;
  }
}

template <typename T> T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

/// Zeros, ones, infinities, NaNs (quiet, signalling, negative, with payload), subnormals, limits of the range.
template <typename T> std::vector<T> special_values() {
  if constexpr (!reference::is_float<T>) {
    using Limits = std::numeric_limits<T>;
    return {T(0), T(1), T(-1), T(2), Limits::min(), Limits::max(), T(Limits::max() / 2 + 1), T(0x55)};
  } else if constexpr (std::is_same_v<T, float8_e4m3>) {
    std::vector<T> values;  // no infinity, and one NaN
    for (const std::uint64_t bits : {0x00U, 0x01U, 0x07U, 0x08U, 0x38U, 0x77U, 0x7dU, 0x7eU, 0x7fU}) {
      values.push_back(from_bits<T>(bits));
      values.push_back(from_bits<T>(bits | 0x80));
    }
    return values;
  } else {
    constexpr int mantissa = std::is_same_v<T, float16>    ? 10
                             : std::is_same_v<T, bfloat16> ? 7
                             : sizeof(T) == 1              ? 2
                             : sizeof(T) == 4              ? 23
                                                           : 52;
    constexpr int width = 8 * sizeof(T);
    const std::uint64_t one_bit = 1, infinity = ((one_bit << (width - 1)) - 1) >> mantissa << mantissa;
    const std::uint64_t quiet = one_bit << (mantissa - 1), smallest_normal = one_bit << mantissa;
    std::vector<T> values;
    for (const std::uint64_t bits : {std::uint64_t{0}, one_bit, smallest_normal - 1, smallest_normal, infinity - 1,
                                     infinity, infinity | 1, infinity | quiet, infinity | quiet | 5}) {
      values.push_back(from_bits<T>(bits));
      values.push_back(from_bits<T>(bits | (one_bit << (width - 1))));
    }
    return values;
  }
}

/// Three of four floats have similar magnitudes, so that not all sums overflow or round to an operand. The others are
/// random bits or special values.
template <typename T> std::vector<T> make_input(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + 77);
  const auto special = special_values<T>();
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t bits = random();
    switch (bits % 8) {
      case 0: value = special[(bits >> 8) % special.size()]; break;
      case 1: value = from_bits<T>(bits >> 3); break;
      default:
        if constexpr (reference::is_float<T>) {
          value = static_cast<T>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(
              static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-61));
        } else {
          value = static_cast<T>(bits >> 8);
        }
    }
  }
  return values;
}

}  // namespace hmc::collectives
