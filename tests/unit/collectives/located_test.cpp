// maxloc and minloc against a simple loop over all contributions.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {
namespace {

template <typename T> class LocatedKernel : public testing::Test {};
using Values = testing::Types<std::int32_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(LocatedKernel, Values);

/// The position of a value in the order of IEEE 754-2019 maximum (minimum). Distinct values have distinct keys.
template <typename T> double key_of(T value, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value))
      return largest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    if (value == 0) return std::signbit(value) ? -1e-300 : 0;
  }
  return static_cast<double>(value);
}

template <typename T> Located<T> expected_of(const std::vector<Located<T>>& column, bool largest) {
  Located<T> best = column[0];
  for (const Located<T>& next : column) {
    const double a = key_of(best.value, largest), b = key_of(next.value, largest);
    if (a == b) best.index = std::min(best.index, next.index);
    if (largest ? b > a : b < a) best = next;
  }
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(best.value)) best.value = std::numeric_limits<T>::quiet_NaN();
  return best;
}

/// Few distinct values, so many are equal. Includes zeros of both signs and NaNs.
template <typename T> T some_value(std::mt19937& random) {
  const unsigned pick = static_cast<unsigned>(random()) % 12;
  if constexpr (std::is_floating_point_v<T>) {
    if (pick == 0) return -std::numeric_limits<T>::quiet_NaN();
    if (pick <= 3) return T(-0.0);
    if (pick <= 5) return T(0.0);
  } else {
    if (pick == 0) return std::numeric_limits<T>::min();
    if (pick == 1) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(pick) - 8;
}

TYPED_TEST(LocatedKernel, best_value_with_the_lowest_index_is_selected) {
  using Pair = Located<TypeParam>;
  static_assert(sizeof(Pair) == 2 * sizeof(TypeParam));
  constexpr std::size_t count = 2001;
  std::mt19937 random(7);
  for (const int in_count : {1, 2, 3, 7}) {
    std::vector<std::vector<Pair>> inputs(static_cast<std::size_t>(in_count), std::vector<Pair>(count));
    for (auto& input : inputs)
      for (Pair& pair : input) pair = {some_value<TypeParam>(random), static_cast<typename Pair::Index>(random() % 5)};
    for (const Op op : {Op::maxloc, Op::minloc}) {
      std::vector<const void*> ins;
      for (const auto& input : inputs) ins.push_back(input.data());
      std::vector<std::byte> out(count * sizeof(Pair) + 1);
      auto last = inputs.back();  // as an output that is an input
      ins.back() = last.data();
      void* outs[] = {out.data() + 1, last.data()};
      reduce_kernel(dtype_of<Pair>(), op)(outs, 2, ins.data(), in_count, count);
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<Pair> column;
        for (const auto& input : inputs) column.push_back(input[i]);
        const Pair expected = expected_of(column, op == Op::maxloc);
        ASSERT_EQ(std::memcmp(out.data() + 1 + i * sizeof expected, &expected, sizeof expected), 0) << i;
        ASSERT_EQ(std::memcmp(&last[i], &expected, sizeof expected), 0) << i;
      }
    }
  }
}

TYPED_TEST(LocatedKernel, other_operations_are_unsupported) {
  for (int number = 0; number < op_count; ++number) {
    const auto op = static_cast<Op>(number);
    EXPECT_EQ(reduce_kernel(dtype_of<Located<TypeParam>>(), op) != nullptr, op == maxloc || op == minloc);
    EXPECT_EQ(reduce_kernel(dtype_of<TypeParam>(), op) == nullptr,
              op == maxloc || op == minloc || (op >= band && std::is_floating_point_v<TypeParam>));
  }
}

}  // namespace
}  // namespace hmc::collectives
