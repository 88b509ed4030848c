// The arithmetic of the programs' times, and the division of a grid among the ranks.
#include <gtest/gtest.h>

#include <vector>

#include "bench/apps/common/decomposition.hpp"
#include "bench/apps/common/split.hpp"

namespace {

using apps::Call;
using apps::Step;

TEST(Split, wait_ends_with_the_arrival_of_the_last_rank) {
  const std::vector<Call> calls{{0b111, 0, 100, 500}, {0b111, 0, 300, 520}, {0b111, 0, 250, 480}};
  EXPECT_EQ(apps::split_of(calls, 0).exchange, 400);
  EXPECT_EQ(apps::split_of(calls, 0).wait, 200);
  EXPECT_EQ(apps::split_of(calls, 1).wait, 0);
  EXPECT_EQ(apps::split_of(calls, 2).wait, 50);
}

TEST(Split, only_ranks_that_the_call_depends_on_count) {
  const std::vector<Call> calls{{0b011, 0, 100, 500}, {0b011, 0, 150, 520}, {0b100, 0, 400, 480}};
  EXPECT_EQ(apps::split_of(calls, 0).wait, 50);
  EXPECT_EQ(apps::split_of(calls, 2).wait, 0);
}

TEST(Split, wait_is_no_longer_than_the_call) {
  const std::vector<Call> calls{{0b11, 0, 100, 130}, {0b11, 0, 900, 950}};  // rank 0 returned before rank 1 arrived
  EXPECT_EQ(apps::split_of(calls, 0).wait, 30);
}

TEST(Split, starts_count_as_exchange_and_not_as_wait) {
  const std::vector<Call> calls{{0b11, 70, 100, 200}, {0b11, 40, 150, 210}};
  EXPECT_EQ(apps::split_of(calls, 0).exchange, 170);
  EXPECT_EQ(apps::split_of(calls, 0).wait, 50);
}

TEST(Split, calls_of_one_step_are_added_and_ranks_averaged) {
  // Two steps of two calls. Rank 1 is 1000 ns late in each call.
  std::vector<std::vector<Call>> calls(2);
  for (std::int64_t at = 0; at < 4; ++at) {
    calls[0].push_back({0b11, 0, 10'000 * at, 10'000 * at + 3'000});
    calls[1].push_back({0b11, 0, 10'000 * at + 1'000, 10'000 * at + 3'000});
  }
  const apps::Both both = apps::exchanges_of(calls, 2);
  EXPECT_DOUBLE_EQ(both.median.exchange, 5);  // (6 + 4) / 2 us
  EXPECT_DOUBLE_EQ(both.median.wait, 1);
  EXPECT_DOUBLE_EQ(both.median.rest, 4);
  EXPECT_DOUBLE_EQ(both.mean.rest, 4);
}

TEST(Split, mean_step_is_that_of_whole_blocks_of_all_ranks) {
  // Blocks of two steps. The second rank ends later.
  const std::vector<std::vector<Step>> steps{{{0, 1'000}, {1'000, 2'000}, {9'000, 10'000}, {10'000, 11'000}},
                                             {{0, 3'000}, {3'000, 6'000}, {9'000, 12'000}, {12'000, 13'000}}};
  const apps::StepTime time = apps::step_time_of(steps, 2);
  EXPECT_DOUBLE_EQ(time.mean, (6.0 + 4.0) / 4);
  EXPECT_DOUBLE_EQ(time.median, (1.0 + 3.0) / 2);
}

TEST(Decomposition, factors_are_as_equal_as_possible) {
  using Grid = std::array<int, 3>;
  EXPECT_EQ(apps::rank_grid(8, 3), (Grid{2, 2, 2}));
  EXPECT_EQ(apps::rank_grid(8, 2), (Grid{4, 2, 1}));
  EXPECT_EQ(apps::rank_grid(8, 1), (Grid{8, 1, 1}));
  EXPECT_EQ(apps::rank_grid(6, 2), (Grid{3, 2, 1}));
  EXPECT_EQ(apps::rank_grid(7, 3), (Grid{7, 1, 1}));
  EXPECT_EQ(apps::rank_grid(12, 3), (Grid{3, 2, 2}));
  EXPECT_THROW(apps::divided(10, 3, "a program"), std::invalid_argument);
}

}  // namespace
