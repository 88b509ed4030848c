// The kit of the benchmark programs: percentiles, patterns, sizes, iteration rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "bench/kit/figures.hpp"
#include "bench/kit/pattern.hpp"
#include "bench/osu/data.hpp"
#include "bench/osu/options.hpp"

namespace {

using bench::Pattern;

TEST(Percentile, nearest_rank_is_returned) {
  std::vector<double> sorted;
  for (int i = 1; i <= 1000; ++i) sorted.push_back(i);
  EXPECT_EQ(bench::percentile(sorted, 50), 500);
  EXPECT_EQ(bench::percentile(sorted, 90), 900);
  EXPECT_EQ(bench::percentile(sorted, 99), 990);
}

TEST(Percentile, result_is_one_of_few_values) {
  EXPECT_EQ(bench::percentile({7}, 50), 7);
  EXPECT_EQ(bench::percentile({7}, 99), 7);
  EXPECT_EQ(bench::percentile({1, 2}, 50), 1);
  EXPECT_EQ(bench::percentile({}, 50), 0);
}

TEST(Overlap, percentage_is_hidden_communication) {
  EXPECT_EQ(bench::overlap_percent(100, 100, 100), 100);  // fully overlapped
  EXPECT_EQ(bench::overlap_percent(200, 100, 100), 0);    // sequential
  EXPECT_EQ(bench::overlap_percent(125, 100, 100), 75);
  EXPECT_EQ(bench::overlap_percent(125, 100, 50), 50);
}

TEST(Overlap, percentage_is_clamped_to_0_and_100) {
  EXPECT_EQ(bench::overlap_percent(90, 100, 100), 100);
  EXPECT_EQ(bench::overlap_percent(300, 100, 100), 0);
  EXPECT_EQ(bench::overlap_percent(0, 0, 0), 0);
}

// The minimum of many runs: other load on the machine only lengthens a run.
TEST(Work, time_grows_with_requested_time) {
  const auto best_us = [](double us) {
    const bench::Work work(us);
    double best = 1e9;
    for (int i = 0; i < 30; ++i) {
      const std::int64_t start = bench::now_ns();
      work.run();
      best = std::min(best, bench::us_since(start));
    }
    return best;
  };
  EXPECT_GT(best_us(2000), 20 * best_us(20));
}

class PatternOf : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { Pattern::bytes(3).write(data.data(), data.size(), 5); }
  std::vector<std::byte> data = std::vector<std::byte>(GetParam());
  bool matches() const { return Pattern::bytes(3).matches(data.data(), data.size(), 5); }
};

TEST_P(PatternOf, pattern_is_recognised) { EXPECT_TRUE(matches()); }

TEST_P(PatternOf, one_wrong_bit_is_detected) {
  for (const std::size_t at : {std::size_t{0}, data.size() / 2, data.size() - 1}) {
    data[at] ^= std::byte{1};
    EXPECT_FALSE(matches()) << at;
    data[at] ^= std::byte{1};
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, PatternOf, testing::Values(1, 7, 8, 1020, 1021, 1022, 4096, 65536, 1000003));

TEST(Pattern, pattern_depends_on_rank_and_call) {
  std::vector<std::byte> data(16);
  Pattern::bytes(3).write(data.data(), data.size(), 5);
  EXPECT_FALSE(Pattern::bytes(4).matches(data.data(), data.size(), 5));
  EXPECT_FALSE(Pattern::bytes(3).matches(data.data(), data.size(), 6));
}

TEST(Pattern, misplaced_block_is_detected) {
  constexpr std::size_t block = 4096;
  std::vector<std::byte> data(16 * block);
  for (std::size_t from = 1; from < 16; ++from) {
    Pattern::bytes(3).write(data.data(), data.size(), 5);
    std::memcpy(data.data(), data.data() + from * block, block);
    EXPECT_FALSE(Pattern::bytes(3).matches(data.data(), data.size(), 5)) << from;
  }
}

TEST(Reduction, result_of_one_rank_is_its_contribution) {
  std::vector<std::byte> given(4096);
  for (int op = 0; op < hmc::op_count; ++op) {
    const auto operation = static_cast<hmc::Op>(op);
    if (operation >= hmc::maxloc) continue;  // not defined for plain numbers
    bench::contribution(operation, hmc::DType::i32, 0, 1).write(given.data(), given.size(), 2);
    EXPECT_TRUE(bench::reduction(operation, hmc::DType::i32, 1, 1).matches(given.data(), given.size(), 2)) << op;
  }
}

// A rank that is missing or counted twice must change the result.
TEST(Reduction, sum_depends_on_every_rank) {
  constexpr int ranks = 3;
  constexpr std::size_t count = 1000;
  const auto given = [](int rank) {
    std::vector<float> values(count);
    bench::contribution(hmc::Op::sum, hmc::DType::f32, rank, ranks).write(values.data(), count * sizeof(float), 0);
    return values;
  };
  std::vector<float> result(count);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) result[i] += given(rank)[i];
    EXPECT_EQ(
        bench::reduction(hmc::Op::sum, hmc::DType::f32, ranks, ranks).matches(result.data(), count * sizeof(float), 0),
        rank == ranks - 1);
  }
}

TEST(Sizes, sizes_double_in_whole_elements) {
  bench::Options options;
  options.min_bytes = 3;
  options.max_bytes = 13;
  EXPECT_EQ(bench::sizes_of(options), (std::vector<std::size_t>{3, 6, 12}));
  EXPECT_EQ(bench::sizes_of(options, 4), (std::vector<std::size_t>{4, 8}));
  EXPECT_EQ(bench::sizes_of(options, 16), (std::vector<std::size_t>{16}));
  options.max_bytes = SIZE_MAX;
  EXPECT_EQ(bench::sizes_of(options).size(), 63U);
}

TEST(Iterations, fewer_iterations_above_8_kib) {
  const bench::Spec spec{.iterations = bench::collective_iterations};
  bench::Options options;
  EXPECT_EQ(bench::repeats_for(spec, options, 8192).count, 1000);
  EXPECT_EQ(bench::repeats_for(spec, options, 8192).warmup, 100);
  EXPECT_EQ(bench::repeats_for(spec, options, 8193).count, 100);
  EXPECT_EQ(bench::repeats_for(spec, options, 8193).warmup, 10);
  options.iterations = 7;
  options.warmup = 0;
  EXPECT_EQ(bench::repeats_for(spec, options, 1).count, 7);
  EXPECT_EQ(bench::repeats_for(spec, options, 1).warmup, 0);
}

}  // namespace
