// Every type, operation and instruction set against the reference, with sizes, alignments and numbers of buffers that
// reach every loop of the kernels.
#include "collectives/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "tests/unit/collectives/reduce_data.hpp"

namespace hmc::collectives {
namespace {

constexpr std::array all_sets{InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512};
constexpr std::byte guard{0xa5};
constexpr std::size_t margin = 64;

/// Memory that begins `shift` bytes after a multiple of 64 and has guards on both sides.
class Place {
 public:
  Place(std::size_t bytes, std::size_t shift) : memory_(bytes + shift + 3 * margin, guard), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = margin + (64 - address % 64) % 64 + shift;
  }
  void* data() { return memory_.data() + begin_; }
  bool guards_are_whole() const {
    const auto is_guard = [](std::byte b) { return b == guard; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), is_guard);
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t begin_ = 0;
  std::size_t bytes_;
};

enum class Outputs { one_apart, three_apart, every_input, last_input };

/// One case: number of buffers, length, alignment.
struct Shape {
  int in_count;
  std::size_t count;
  std::size_t shift;  ///< input k begins k + 1 shifts after a multiple of 64, outputs likewise
  Outputs outputs;
};

template <typename T> std::vector<T> expected_of(Op op, const std::vector<std::vector<T>>& inputs) {
  std::vector<T> expected(inputs[0].size());
  std::vector<T> column(inputs.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k) column[k] = inputs[k][i];
    expected[i] = *reference::reduce<T>(op, column);
  }
  return expected;
}

template <typename T> std::string first_difference(const void* got, const std::vector<T>& expected, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t g = 0, e = 0;
    std::memcpy(&g, static_cast<const std::byte*>(got) + i * sizeof(T), sizeof(T));
    std::memcpy(&e, static_cast<const void*>(&expected[i]), sizeof(T));
    if (g != e) return "element " + std::to_string(i) + " is " + std::to_string(g) + ", not " + std::to_string(e);
  }
  return {};
}

template <typename T>
void check_shape(ReduceKernel kernel, const Shape& shape, const std::vector<std::vector<T>>& inputs,
                 const std::vector<T>& expected) {
  const std::size_t bytes = shape.count * sizeof(T);
  std::vector<Place> in_places, out_places;
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (int k = 0; k < shape.in_count; ++k) {
    in_places.emplace_back(bytes, shape.shift * static_cast<std::size_t>(k + 1) % 64);
    if (bytes != 0) std::memcpy(in_places.back().data(), inputs[static_cast<std::size_t>(k)].data(), bytes);
  }
  for (Place& place : in_places) ins.push_back(place.data());
  const std::size_t apart = shape.outputs == Outputs::one_apart ? 1 : shape.outputs == Outputs::three_apart ? 3 : 0;
  for (std::size_t j = 0; j < apart; ++j) out_places.emplace_back(bytes, shape.shift * (j + 5) % 64);
  for (Place& place : out_places) outs.push_back(place.data());
  if (shape.outputs == Outputs::every_input) {
    for (Place& place : in_places) outs.push_back(place.data());
  } else if (shape.outputs == Outputs::last_input) {
    outs.push_back(in_places.back().data());
  }

  kernel(outs.data(), static_cast<int>(outs.size()), ins.data(), shape.in_count, shape.count);

  for (void* out : outs) ASSERT_EQ(first_difference<T>(out, expected, shape.count), "");
  for (const Place& place : in_places) ASSERT_TRUE(place.guards_are_whole());
  for (const Place& place : out_places) ASSERT_TRUE(place.guards_are_whole());
  for (std::size_t k = 0; k < inputs.size() && apart != 0; ++k)
    ASSERT_TRUE(bytes == 0 || std::memcmp(ins[k], inputs[k].data(), bytes) == 0) << "input " << k << " was changed";
}

class Reduce : public testing::TestWithParam<std::tuple<DType, InstructionSet>> {
 protected:
  void SetUp() override {
    if (!available(set())) GTEST_SKIP() << "this processor has no " << name_of(set());
  }
  DType type() const { return std::get<0>(GetParam()); }
  InstructionSet set() const { return std::get<1>(GetParam()); }
  template <typename F> void for_each_op(F&& f) {
    for (const Op op : all_ops) {
      if (!is_defined(type(), op)) continue;
      SCOPED_TRACE(testing::Message() << name_of(type()) << " " << name_of(op) << " " << name_of(set()));
      const ReduceKernel kernel = reduce_kernel(type(), op, set());
      ASSERT_NE(kernel, nullptr);
      with_type(type(), [&](auto zero) { f(op, kernel, zero); });
      if (HasFatalFailure()) return;
    }
  }
};

template <typename T> std::vector<std::vector<T>> make_inputs(int in_count, std::size_t count) {
  std::vector<std::vector<T>> inputs;
  for (int k = 0; k < in_count; ++k) inputs.push_back(make_input<T>(count, static_cast<std::uint64_t>(k)));
  return inputs;
}

TEST_P(Reduce, result_equals_the_reference_at_every_count_and_alignment) {
  constexpr std::size_t longest = 4096 + 3;
  for_each_op([&](Op op, ReduceKernel kernel, auto zero) {
    using T = decltype(zero);
    for (const int in_count : {1, 2, 3, 4, 5, 8, 13}) {
      const auto inputs = make_inputs<T>(in_count, longest);
      const auto expected = expected_of(op, inputs);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{17},
                                      std::size_t{63}, std::size_t{64}, std::size_t{257}, longest}) {
        for (const std::size_t shift : {std::size_t{0}, sizeof(T), std::size_t{1}}) {  // whole, element, byte
          for (const Outputs outputs :
               {Outputs::one_apart, Outputs::three_apart, Outputs::every_input, Outputs::last_input}) {
            const Shape shape{in_count, count, shift, outputs};
            ASSERT_NO_FATAL_FAILURE(check_shape(kernel, shape, inputs, expected))
                << in_count << " inputs, count " << count << ", shift " << shift << ", outputs " << int(outputs);
          }
        }
      }
    }
  });
}

TEST_P(Reduce, result_does_not_depend_on_pieces) {
  constexpr std::size_t count = 3001;
  for_each_op([&](Op op, ReduceKernel kernel, auto zero) {
    using T = decltype(zero);
    for (const int in_count : {2, 3, 4, 7}) {
      const auto inputs = make_inputs<T>(in_count, count);
      const auto expected = expected_of(op, inputs);
      std::mt19937 random(static_cast<unsigned>(in_count));
      std::vector<T> out(count);
      for (std::size_t from = 0; from < count;) {
        const std::size_t length = std::min<std::size_t>(count - from, 1 + random() % 150);
        std::vector<const void*> ins;
        for (const auto& input : inputs) ins.push_back(input.data() + from);
        void* to = out.data() + from;
        kernel(&to, 1, ins.data(), in_count, length);
        from += length;
      }
      ASSERT_EQ(first_difference<T>(out.data(), expected, count), "") << in_count << " inputs";
    }
  });
}

TEST_P(Reduce, every_pair_of_special_values_is_combined) {
  for_each_op([&](Op op, ReduceKernel kernel, auto zero) {
    using T = decltype(zero);
    const auto special = special_values<T>();
    std::vector<std::vector<T>> inputs(3);
    for (const T& a : special) {
      for (const T& b : special) {
        for (const T& c : special) inputs[0].push_back(a), inputs[1].push_back(b), inputs[2].push_back(c);
      }
    }
    const Shape shape{3, inputs[0].size(), 0, Outputs::one_apart};
    ASSERT_NO_FATAL_FAILURE(check_shape(kernel, shape, inputs, expected_of(op, inputs)));
  });
}

TEST_P(Reduce, average_works_with_more_ranks_than_values_of_a_type) {
  if (!is_defined(type(), Op::avg)) return;
  const ReduceKernel kernel = reduce_kernel(type(), Op::avg, set());
  with_type(type(), [&](auto zero) {
    using T = decltype(zero);
    for (const int in_count : {64, 100, 128, 200, 255, 256, 257, 300, 512}) {
      const auto inputs = make_inputs<T>(in_count, 70);
      const Shape shape{in_count, 70, sizeof(T), Outputs::one_apart};
      ASSERT_NO_FATAL_FAILURE(check_shape(kernel, shape, inputs, expected_of(Op::avg, inputs))) << in_count;
    }
  });
}

TEST_P(Reduce, bit_operations_of_floats_are_undefined) {
  for (int number = 0; number < op_count; ++number) {
    const auto op = static_cast<Op>(number);
    EXPECT_EQ(reduce_kernel(type(), op, set()) != nullptr, is_defined(type(), op)) << name_of(op);
    EXPECT_EQ(reduce_kernel(type(), op) != nullptr, is_defined(type(), op)) << name_of(op);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::Combine(testing::ValuesIn(all_types), testing::ValuesIn(all_sets)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  name_of(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc::collectives
