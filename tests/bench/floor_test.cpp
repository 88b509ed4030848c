// hmc_floor's verdict on fixed rounds, without measurement.
#include <gtest/gtest.h>

#include <vector>

#include "bench/compare/limit.hpp"

namespace {

using bench::Limit;
using bench::Verdict;
using Rounds = std::vector<double>;

TEST(FloorLimit, ratio_at_the_limit_is_kept) {
  const Verdict verdict(Limit::ratio(1.25), Rounds(5, 100), Rounds(5, 125));
  EXPECT_TRUE(verdict.kept);
  EXPECT_DOUBLE_EQ(verdict.ratio, 1.25);
  EXPECT_EQ(verdict.text, "<= 1.25  ok");
}

TEST(FloorLimit, ratio_above_the_limit_is_missed) {
  const Verdict verdict(Limit::ratio(1.25), Rounds(5, 100), Rounds(5, 126));
  EXPECT_FALSE(verdict.kept);
  EXPECT_EQ(verdict.text, "<= 1.25  MISSED");
}

TEST(FloorLimit, nanoseconds_at_the_limit_are_kept) {
  const Verdict verdict(Limit::extra_ns(10), Rounds(5, 30), Rounds(5, 40));
  EXPECT_TRUE(verdict.kept);
  EXPECT_DOUBLE_EQ(verdict.extra_ns, 10);
  EXPECT_EQ(verdict.text, "+10.0 ns of +10  ok");
}

TEST(FloorLimit, nanoseconds_above_the_limit_are_missed) {
  const Verdict verdict(Limit::extra_ns(10), Rounds(5, 30), Rounds(5, 41));
  EXPECT_FALSE(verdict.kept);
  EXPECT_EQ(verdict.text, "+11.0 ns of +10  MISSED");
}

TEST(FloorLimit, verdict_compares_times_of_one_round) {
  // The machine slows down threefold and recovers. Each round's ratio is 1.5; the ratio of the medians isn't.
  const Verdict verdict(Limit::ratio(1.4), {100, 300, 100, 300, 100}, {150, 450, 150, 450, 150});
  EXPECT_DOUBLE_EQ(verdict.ratio, 1.5);
  EXPECT_FALSE(verdict.kept);
}

TEST(FloorLimit, few_disturbed_rounds_are_ignored) {
  EXPECT_TRUE(Verdict(Limit::ratio(1.25), Rounds(5, 100), {110, 9000, 110, 9000, 110}).kept);
  EXPECT_FALSE(Verdict(Limit::ratio(1.25), Rounds(5, 100), {110, 9000, 9000, 9000, 110}).kept);
}

TEST(FloorLimit, limit_without_measurement_is_missed) { EXPECT_FALSE(Verdict(Limit::ratio(2), {}, {}).kept); }

}  // namespace
