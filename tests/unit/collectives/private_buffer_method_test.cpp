// The choice between the two paths of private buffers: by rule and by trial.
#include <gtest/gtest.h>

#include "collectives/node/private_buffers.hpp"

namespace hmc::collectives {
namespace {

/// The durations of calls of one size, per path.
struct Costs {
  std::int64_t usual;
  std::int64_t other;
};
int taken_new(MethodTrials& ways, std::size_t bytes, Costs costs, int calls) {
  int taken = 0;
  for (int i = 0; i < calls; ++i) {
    const MethodTrials::Trial way = ways.next(bytes);
    taken += way.is_new ? 1 : 0;
    if (way.is_timed) ways.record_time(bytes, way.is_new, way.is_new ? costs.other : costs.usual);
  }
  return taken;
}

TEST(MethodTrials, faster_method_is_used_except_for_few_trials) {
  MethodTrials ways;
  EXPECT_EQ(taken_new(ways, 1 << 16, {7'000, 12'000}, 600), 3 * 6);  // trials from calls 2, 78 and 346
  EXPECT_GE(taken_new(ways, 1 << 20, {400'000, 200'000}, 600), 600 - 8 - 3 * 6);
}

TEST(MethodTrials, trials_become_rare) {
  MethodTrials ways;
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 20'000), 9 * 6);
}

TEST(MethodTrials, changed_times_are_detected) {
  MethodTrials ways;
  taken_new(ways, 1 << 16, {7'000, 12'000}, 10'000);
  taken_new(ways, 1 << 16, {24'000, 15'000}, 5'000);
  EXPECT_GE(taken_new(ways, 1 << 16, {24'000, 15'000}, 640), 620);
  taken_new(ways, 1 << 16, {7'000, 12'000}, 10'000);
  EXPECT_LE(taken_new(ways, 1 << 16, {7'000, 12'000}, 640), 20);
}

TEST(MethodTrials, small_difference_changes_nothing) {
  MethodTrials ways;
  EXPECT_LE(taken_new(ways, 1 << 16, {10'000, 9'500}, 1000), 3 * 6);
}

TEST(MethodTrials, slow_trial_calls_change_nothing) {
  MethodTrials ways;
  int calls = 0;
  for (int i = 0; i < 1000; ++i) {
    const MethodTrials::Trial way = ways.next(1 << 18);
    if (!way.is_timed) continue;
    // Two of six measurements are disturbed.
    const bool disturbed = calls++ % 6 < 2;
    ways.record_time(1 << 18, way.is_new, disturbed && !way.is_new ? 4'000'000 : way.is_new ? 45'000 : 30'000);
    EXPECT_EQ(way.is_new, (calls - 1) % 12 >= 6);  // it follows a change that lasts
  }
}

TEST(MethodTrials, follower_tries_and_chooses_with_its_leader) {
  MethodTrials leader, follower;
  for (int i = 0; i < 500; ++i) {
    follower.follow(leader.decided());
    const MethodTrials::Trial theirs = follower.next(1 << 20);
    const MethodTrials::Trial way = leader.next(1 << 20);
    if (way.is_timed) leader.record_time(1 << 20, way.is_new, way.is_new ? 100'000 : 200'000);
    if (theirs.is_timed) follower.record_time(1 << 20, theirs.is_new, theirs.is_new ? 300'000 : 200'000);
    EXPECT_EQ(way.is_timed, theirs.is_timed);
    EXPECT_TRUE(way.is_new == theirs.is_new || i == 14) << i;  // the follower is informed one call later
  }
  EXPECT_TRUE(follower.next(1 << 20).is_new);
}

TEST(MethodTrials, sizes_are_tried_separately) {
  MethodTrials ways;
  taken_new(ways, 1 << 16, {9'000, 1}, 200);
  EXPECT_FALSE(ways.next(1 << 17).is_new);
  EXPECT_TRUE(ways.next(1 << 16).is_new);
  EXPECT_GE(taken_new(ways, std::size_t{1} << 40, {9'000, 1}, 200), 200 - 8 - 6);
}

TEST(PrivateBufferMethod, only_large_blocks_are_read_where_it_saves_work) {
  for (int size : {2, 3, 8}) {
    EXPECT_EQ(private_buffer_method(CollectiveKind::scatter, size, 16 << 10), PrivateBufferMethod::stage);
    EXPECT_EQ(private_buffer_method(CollectiveKind::scatter, size, 1 << 20), PrivateBufferMethod::read);
    EXPECT_EQ(private_buffer_method(CollectiveKind::gather, size, 1 << 20), PrivateBufferMethod::stage);
    EXPECT_EQ(private_buffer_method(CollectiveKind::broadcast, size, 1 << 20), PrivateBufferMethod::stage);
    EXPECT_EQ(private_buffer_method(CollectiveKind::alltoall, size, 1 << 20), PrivateBufferMethod::try_both);
    EXPECT_EQ(private_buffer_method(CollectiveKind::alltoall, size, 64 << 10),
              size == 2 ? PrivateBufferMethod::try_both : PrivateBufferMethod::stage);
    EXPECT_EQ(private_buffer_method(CollectiveKind::allgather, size, 1 << 20),
              size == 2 ? PrivateBufferMethod::try_both : PrivateBufferMethod::stage);
  }
}

}  // namespace
}  // namespace hmc::collectives
