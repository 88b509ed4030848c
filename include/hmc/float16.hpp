// 16-bit floats: storage types with exact conversion to float. Arithmetic is in float.
#pragma once

#if __cplusplus < 202002L
#error "HMC needs C++20: g++ 11 or clang 14, or newer, with -std=c++20"
#else

#include <bit>
#include <cstdint>

namespace hmc {

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even.
struct float16 {
  std::uint16_t bits = 0;

  constexpr float16() = default;
  constexpr explicit float16(float value) : bits(encode(value)) {}
  constexpr explicit operator float() const { return decode(bits); }
  friend constexpr bool operator==(float16 a, float16 b) { return float(a) == float(b); }

  static constexpr std::uint16_t encode(float value) {
    const std::uint32_t f = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((f >> 16) & 0x8000U);
    const std::uint32_t magnitude = f & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);   // a quiet NaN
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to inf
    if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 rounds the mantissa to the result's last bit
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
  }

  static constexpr float decode(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
    const std::uint32_t magnitude = half & 0x7fffU;
    if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
    if (magnitude < 0x0400U) {  // subnormal or zero: magnitude * 2^-24
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
};

/// The upper half of a float. Conversion from float rounds to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;

  constexpr bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(encode(value)) {}
  constexpr explicit operator float() const { return decode(bits); }
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) { return float(a) == float(b); }

  static constexpr std::uint16_t encode(float value) {
    const std::uint32_t f = std::bit_cast<std::uint32_t>(value);
    if ((f & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((f >> 16) | 0x40U);
    return static_cast<std::uint16_t>((f + 0x7fffU + ((f >> 16) & 1U)) >> 16);
  }
  static constexpr float decode(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }
};

}  // namespace hmc

#endif  // C++20
