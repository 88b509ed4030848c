// 16-bit floats: the public conversions at every value and every tie, and the kernels' conversions on sums and products
// of every value with a wide choice of others.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <hmc/float16.hpp>

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {
namespace {

template <typename T> T of_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <typename T> class Half : public testing::Test {};
using Halves = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Half, Halves);

/// The value of the bits according to the definition of the format.
template <typename T> double by_definition(unsigned bits) {
  constexpr bool is_half = std::is_same_v<T, float16>;
  constexpr int mantissa_bits = is_half ? 10 : 7, bias = is_half ? 15 : 127;
  const int exponent = static_cast<int>((bits & 0x7fffU) >> mantissa_bits);
  const int mantissa = static_cast<int>(bits & ((1U << mantissa_bits) - 1));
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int top = is_half ? 31 : 255;
  if (exponent == top) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TYPED_TEST(Half, every_value_converts_exactly_in_both_directions) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const double expected = by_definition<TypeParam>(bits);
    const float value = static_cast<float>(of_bits<TypeParam>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
  }
}

TYPED_TEST(Half, ties_round_to_even) {
  const unsigned infinity = TypeParam(std::numeric_limits<float>::infinity()).bits;
  for (unsigned low = 0; low < infinity; ++low) {
    const unsigned high = low + 1;
    const double below = by_definition<TypeParam>(low);
    // Above the largest number, the next value is computed as if the exponent range continued.
    const double above =
        high == infinity ? below + (below - by_definition<TypeParam>(low - 1)) : by_definition<TypeParam>(high);
    const auto middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(static_cast<double>(middle), (below + above) / 2);
    const unsigned even = low % 2 == 0 ? low : high;
    for (const unsigned sign : {0U, 0x8000U}) {
      const float s = sign != 0 ? -1.0F : 1.0F;
      ASSERT_EQ(TypeParam(s * middle).bits, even | sign) << low;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, 0.0F)).bits, low | sign) << low;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, std::numeric_limits<float>::infinity())).bits, high | sign) << low;
    }
  }
}

/// Powers of two (whose sums with a value are ties) and random bits.
std::vector<unsigned> partners() {
  std::vector<unsigned> bits;
  for (unsigned b = 1; b < 0x8000U; b = b < 0x400U ? b << 1 : b + 0x400U) bits.insert(bits.end(), {b, b | 0x8000U});
  for (unsigned i = 0, x = 12345; i < 120; ++i) bits.push_back((x = x * 1103515245U + 12345U) >> 16);
  return bits;
}

TYPED_TEST(Half, kernels_round_once_from_float) {
  const DType type = dtype_of<TypeParam>();
  std::vector<TypeParam> a(65536), b(65536), out(65536);
  for (unsigned i = 0; i < 65536; ++i) a[i] = of_bits<TypeParam>(i);
  for (const unsigned partner : partners()) {
    std::fill(b.begin(), b.end(), of_bits<TypeParam>(partner));
    const void* ins[] = {a.data(), b.data()};
    void* to = out.data();
    for (const Op op : {Op::sum, Op::prod}) {
      std::vector<std::uint16_t> expected(65536);
      for (unsigned i = 0; i < 65536; ++i) {
        const float x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
        const float z = op == Op::sum ? x + y : x * y;
        expected[i] = TypeParam(std::isnan(z) ? std::numeric_limits<float>::quiet_NaN() : z).bits;
      }
      for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
        const ReduceKernel kernel = reduce_kernel(type, op, set);
        if (kernel == nullptr) continue;
        kernel(&to, 1, ins, 2, 65536);
        for (unsigned i = 0; i < 65536; ++i)
          ASSERT_EQ(out[i].bits, expected[i]) << i << " with " << partner << " " << name_of(op) << " " << name_of(set);
      }
    }
  }
}

TYPED_TEST(Half, many_ranks_are_summed_in_float) {
  // In 16 bits the sum would stop growing: 2048 + 1 is 2048 in f16, 256 + 1 is 256 in bf16.
  std::vector<TypeParam> one(33, TypeParam(1.0F)), out(33);
  const std::vector<const void*> ins(4096, one.data());
  void* to = out.data();
  reduce_kernel(dtype_of<TypeParam>(), Op::sum)(&to, 1, ins.data(), 4096, one.size());
  for (const TypeParam& value : out) EXPECT_EQ(static_cast<float>(value), 4096.0F);
}

}  // namespace
}  // namespace hmc::collectives
