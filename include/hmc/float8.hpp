// 8-bit floats: storage types with exact conversion to float. Arithmetic is in float.
#pragma once

#if __cplusplus < 202002L
#error "HMC needs C++20: g++ 11 or clang 14, or newer, with -std=c++20"
#else

#include <bit>
#include <cstdint>

namespace hmc {

namespace detail {

/// The two formats of the OCP 8-bit floating point specification. Conversion from float rounds to nearest, ties to
/// even. It doesn't saturate: a value that is too large becomes infinity (E5M2) or NaN (E4M3), as in torch.
template <unsigned mantissa_bits, unsigned bias, bool has_infinity> struct Float8Format {
  static constexpr unsigned shift = 23 - mantissa_bits;
  static constexpr std::uint32_t rebias = (127 - bias) << 23;
  static constexpr std::uint32_t nan = 0x7fU;
  static constexpr std::uint32_t infinity = 0x7cU;  ///< if has_infinity

  static constexpr std::uint8_t encode(float value) {
    const std::uint32_t f = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (f >> 24) & 0x80U;
    return static_cast<std::uint8_t>(sign | encode_magnitude(f & 0x7fffffffU));
  }
  static constexpr float decode(std::uint8_t bits) {
    const std::uint32_t sign = std::uint32_t{bits & 0x80U} << 24;
    const std::uint32_t magnitude = bits & 0x7fU;
    if (has_infinity ? magnitude >= infinity : magnitude == nan) {
      const std::uint32_t payload = has_infinity ? (magnitude - infinity) << shift : 0x400000U;
      return std::bit_cast<float>(sign | 0x7f800000U | payload);
    }
    if (magnitude >> mantissa_bits == 0) {  // zero, or a multiple of the smallest subnormal
      constexpr float smallest = std::bit_cast<float>((128U - bias - mantissa_bits) << 23);
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * smallest) | sign);
    }
    return std::bit_cast<float>(sign | ((magnitude << shift) + rebias));
  }

 private:
  static constexpr std::uint32_t encode_magnitude(std::uint32_t f) {
    if (f > 0x7f800000U) return nan;
    // Ties above the largest number: in e4m3 464 rounds to 448 (even), in e5m2 61440 rounds to infinity.
    if (!has_infinity && f > 0x43e80000U) return nan;
    if (has_infinity && f >= 0x47700000U) return infinity;
    if (f < rebias + (1U << 23)) {  // subnormal: the addition rounds to the last bit
      constexpr std::uint32_t steps = (151U - bias - mantissa_bits) << 23;  // its last bit is the smallest subnormal
      return std::bit_cast<std::uint32_t>(std::bit_cast<float>(f) + std::bit_cast<float>(steps)) - steps;
    }
    const std::uint32_t odd = (f >> shift) & 1U;
    return (f - rebias + (1U << (shift - 1)) - 1 + odd) >> shift;
  }
};

}  // namespace detail

/// OCP E4M3 (torch's float8_e4m3fn): up to 448, no infinity; larger values become NaN.
struct float8_e4m3 {
  using Format = detail::Float8Format<3, 7, false>;
  std::uint8_t bits = 0;

  constexpr float8_e4m3() = default;
  constexpr explicit float8_e4m3(float value) : bits(Format::encode(value)) {}
  constexpr explicit operator float() const { return Format::decode(bits); }
  friend constexpr bool operator==(float8_e4m3 a, float8_e4m3 b) { return float(a) == float(b); }
};

/// OCP E5M2 (torch's float8_e5m2): the upper half of a float16; up to 57344, larger values become infinity.
struct float8_e5m2 {
  using Format = detail::Float8Format<2, 15, true>;
  std::uint8_t bits = 0;

  constexpr float8_e5m2() = default;
  constexpr explicit float8_e5m2(float value) : bits(Format::encode(value)) {}
  constexpr explicit operator float() const { return Format::decode(bits); }
  friend constexpr bool operator==(float8_e5m2 a, float8_e5m2 b) { return float(a) == float(b); }
};

}  // namespace hmc

#endif  // C++20
