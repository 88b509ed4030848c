// 8-bit floats: the conversions against the tables of the OCP specification, computed in double, and the kernels on
// every pair of values.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {
namespace {

template <typename T> constexpr bool is_e4m3 = std::is_same_v<T, float8_e4m3>;

template <typename T> T of_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint8_t>(bits);
  return value;
}

/// "OCP 8-bit Floating Point Specification", table 1: S.EEEE.MMM with bias 7 and NaN at S.1111.111 alone; S.EEEEE.MM
/// with bias 15 and IEEE's infinities and NaNs.
template <typename T> double by_definition(unsigned bits) {
  constexpr int mantissa_bits = is_e4m3<T> ? 3 : 2, bias = is_e4m3<T> ? 7 : 15, top = is_e4m3<T> ? 15 : 31;
  constexpr int all_ones = (1 << mantissa_bits) - 1;
  const int exponent = static_cast<int>((bits & 0x7fU) >> mantissa_bits);
  const int mantissa = static_cast<int>(bits) & all_ones;
  const double sign = (bits & 0x80U) != 0 ? -1 : 1;
  if (exponent == top && is_e4m3<T> && mantissa == all_ones) return std::nan("");
  if (exponent == top && !is_e4m3<T>)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double fraction = mantissa / static_cast<double>(all_ones + 1);
  return sign * (exponent == 0 ? fraction * std::pow(2, 1 - bias) : (1 + fraction) * std::pow(2, exponent - bias));
}

/// The bits nearest to `value` (ties to even), by exhaustive search.
template <typename T> unsigned nearest(double value) {
  const unsigned sign = std::signbit(value) ? 0x80U : 0;
  if (std::isnan(value)) return 0x7fU | sign;
  const unsigned largest = is_e4m3<T> ? 0x7e : 0x7b, beyond = is_e4m3<T> ? 0x7f : 0x7c;
  unsigned best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (unsigned bits = 0; bits <= beyond; ++bits) {
    // `beyond` stands for the next value after the largest.
    const double last_step = by_definition<T>(largest) - by_definition<T>(largest - 1);
    const double there = bits == beyond ? by_definition<T>(largest) + last_step : by_definition<T>(bits);
    if (bits == beyond && std::isinf(value)) return beyond | sign;
    const double away = std::abs(std::abs(value) - there);
    if (away < distance || (away == distance && bits % 2 == 0)) best = bits;
    distance = std::min(distance, away);
  }
  if (std::abs(value) > by_definition<T>(largest) * 2) best = beyond;
  return best | sign;
}

template <typename T> class Float8 : public testing::Test {};
using Formats = testing::Types<float8_e4m3, float8_e5m2>;
TYPED_TEST_SUITE(Float8, Formats);

TYPED_TEST(Float8, every_value_converts_exactly_in_both_directions) {
  int nans = 0;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const double expected = by_definition<TypeParam>(bits);
    const float value = static_cast<float>(of_bits<TypeParam>(bits));
    if (std::isnan(expected)) {
      ++nans;
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(TypeParam(value).bits, 0x7fU | (bits & 0x80U)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
  }
  EXPECT_EQ(nans, is_e4m3<TypeParam> ? 2 : 6);
}

TYPED_TEST(Float8, limits_match_the_specification) {
  EXPECT_EQ(static_cast<float>(of_bits<TypeParam>(is_e4m3<TypeParam> ? 0x7e : 0x7b)),
            is_e4m3<TypeParam> ? 448.0F : 57344.0F);
  EXPECT_EQ(static_cast<float>(of_bits<TypeParam>(1)), is_e4m3<TypeParam> ? 0x1p-9F : 0x1p-16F);
  EXPECT_EQ(static_cast<float>(of_bits<TypeParam>(is_e4m3<TypeParam> ? 8 : 4)),
            is_e4m3<TypeParam> ? 0x1p-6F : 0x1p-14F);
}

TYPED_TEST(Float8, conversion_rounds_to_nearest_even) {
  std::vector<float> values{448.0F,   464.0F,   480.0F, 57344.0F, 61440.0F,  65536.0F,
                            0x1p-10F, 0x1p-17F, 0.0F,   1e30F,    0x1p-149F, std::numeric_limits<float>::infinity()};
  for (unsigned bits = 0; bits < 0x7e; ++bits) {
    const double a = by_definition<TypeParam>(bits), b = by_definition<TypeParam>(bits + 1);
    if (!std::isfinite(b)) break;
    for (const double part : {0.25, 0.5, 0.75}) values.push_back(static_cast<float>(a + part * (b - a)));
  }
  for (std::uint32_t i = 0, x = 12345; i < 20000; ++i)
    values.push_back(std::bit_cast<float>(x = x * 1664525U + 1013904223U));
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(std::nextafter(values[i], 0.0F));
    values.push_back(std::nextafter(values[i], std::numeric_limits<float>::infinity()));
  }
  for (const float value : values) {
    if (std::isnan(value)) continue;
    ASSERT_EQ(TypeParam(value).bits, nearest<TypeParam>(static_cast<double>(value))) << value;
    ASSERT_EQ(TypeParam(-value).bits, nearest<TypeParam>(static_cast<double>(-value))) << -value;
  }
}

// Overflow is visible in the result, as in torch and unlike in NVIDIA's saturating conversion.
TYPED_TEST(Float8, conversion_does_not_saturate) {
  const float value = static_cast<float>(TypeParam(1e6F));
  EXPECT_TRUE(is_e4m3<TypeParam> ? std::isnan(value) : std::isinf(value));
}

/// The reference results of `op` on the values of the low and the high byte of every 16-bit index.
template <typename T> std::vector<std::uint8_t> nearest_of_every_pair(Op op) {
  std::vector<std::uint8_t> bits(65536);
  for (unsigned i = 0; i < 65536; ++i) {
    const double x = by_definition<T>(i & 0xff), y = by_definition<T>(i >> 8);
    double z = op == Op::sum ? x + y : op == Op::prod ? x * y : op == Op::min ? std::fmin(x, y) : std::fmax(x, y);
    if (std::isnan(x) || std::isnan(y)) z = std::nan("");
    if (x == y && op == Op::min) z = std::signbit(x) ? x : y;
    if (x == y && op == Op::max) z = std::signbit(x) ? y : x;
    if (std::isnan(z)) z = std::abs(z);  // the positive one
    bits[i] = static_cast<std::uint8_t>(nearest<T>(z));
  }
  return bits;
}

TYPED_TEST(Float8, kernels_round_once_from_float_for_every_pair) {
  std::vector<TypeParam> a(65536), b(65536), out(65536);
  for (unsigned i = 0; i < 65536; ++i) a[i] = of_bits<TypeParam>(i & 0xff), b[i] = of_bits<TypeParam>(i >> 8);
  const void* ins[] = {a.data(), b.data()};
  void* to = out.data();
  for (const Op op : {Op::sum, Op::prod, Op::min, Op::max}) {
    const std::vector<std::uint8_t> expected = nearest_of_every_pair<TypeParam>(op);
    for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
      const ReduceKernel kernel = reduce_kernel(dtype_of<TypeParam>(), op, set);
      if (kernel == nullptr) continue;
      kernel(&to, 1, ins, 2, out.size());
      for (unsigned i = 0; i < 65536; ++i) {
        if (out[i].bits == expected[i]) continue;
        FAIL() << by_definition<TypeParam>(i & 0xff) << " " << name_of(op) << " " << by_definition<TypeParam>(i >> 8)
               << " " << name_of(set) << ": " << int{out[i].bits} << " and not " << int{expected[i]};
      }
    }
  }
}

TYPED_TEST(Float8, many_ranks_are_summed_in_float) {
  // In 8 bits the sum would stop growing at 16, or at 8.
  std::vector<TypeParam> one(33, TypeParam(1.0F)), out(33);
  const std::vector<const void*> ins(256, one.data());
  void* to = out.data();
  reduce_kernel(dtype_of<TypeParam>(), Op::sum)(&to, 1, ins.data(), 256, one.size());
  for (const TypeParam& value : out) EXPECT_EQ(static_cast<float>(value), 256.0F);
}

}  // namespace
}  // namespace hmc::collectives
