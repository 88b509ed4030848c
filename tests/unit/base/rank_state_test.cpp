#include "runtime/base/rank_state.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace hmc::base {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

RankState waiting(int rank, Activity activity, int peer, std::int64_t seconds = 10) {
  RankState state;
  state.rank = rank;
  state.pid = 100 + rank;
  state.activity = activity;
  state.peer = peer;
  state.for_ns = seconds * second_ns;
  return state;
}

std::string text_of(const std::vector<RankState>& states) { return text_of_deadlock(states, 10'000); }

TEST(Deadlock, ranks_that_receive_from_each_other_are_named) {
  EXPECT_EQ(text_of({waiting(0, Activity::recv, 1), waiting(1, Activity::recv, 0)}),
            "deadlock: rank 0 in recv waits for rank 1, rank 1 in recv waits for rank 0");
  EXPECT_EQ(text_of({waiting(0, Activity::recv, 1), waiting(1, Activity::probe, 0), waiting(2, Activity::recv, 1)}),
            "deadlock: rank 0 in recv waits for rank 1, rank 1 in probe waits for rank 0");
}

TEST(Deadlock, only_the_circle_of_a_chain_is_named) {
  EXPECT_EQ(text_of({waiting(0, Activity::recv, 2), waiting(1, Activity::send, 3), waiting(2, Activity::recv, 1),
                     waiting(3, activity_of(CollectiveKind::barrier), 2)}),
            "deadlock: rank 2 in recv waits for rank 1, rank 1 in send waits for rank 3, "
            "rank 3 in barrier waits for rank 2");
}

TEST(Deadlock, rank_that_waits_for_itself_is_named) {
  EXPECT_EQ(text_of({waiting(0, activity_of(CollectiveKind::barrier), 1), waiting(1, Activity::recv, 1)}),
            "deadlock: rank 1 in recv waits for itself");
}

TEST(Deadlock, circle_of_many_ranks_is_shortened) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 12; ++rank) states.push_back(waiting(rank, Activity::recv, (rank + 1) % 12));
  const std::string text = text_of(states);
  EXPECT_NE(text.find("rank 7 in recv waits for rank 8, and 4 more"), std::string::npos) << text;
}

TEST(Deadlock, waits_that_can_end_are_none) {
  const RankState receives = waiting(0, Activity::recv, 1);
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({receives, waiting(1, Activity::computing, 0)}), "");
  EXPECT_EQ(text_of({receives, waiting(1, Activity::recv, 2), waiting(2, Activity::recv, -1)}), "");
  EXPECT_EQ(text_of({receives, waiting(1, Activity::recv, 0, 4)}), "") << "the wait has just begun";
  // In a collective two ranks may wait for each other's bytes.
  EXPECT_EQ(text_of({waiting(0, activity_of(CollectiveKind::allreduce), 1),
                     waiting(1, activity_of(CollectiveKind::allreduce), 0)}),
            "");
  RankState stopped = waiting(1, Activity::recv, 0);
  stopped.is_stopped = true;
  EXPECT_EQ(text_of({receives, stopped}), "");
}

}  // namespace
}  // namespace hmc::base
