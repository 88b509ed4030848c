// Every rank has finished an area's last use before the area is reused. Also: the positions of guards.
#include "collectives/network/numbering.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hmc::collectives {
namespace {

constexpr std::uint64_t areas = Arena::areas;

/// Makes calls as a team does, and tracks independently of Numbering which calls all ranks have finished.
class Sequence {
 public:
  /// A call of `pieces` pieces. Returns the number of guards (0 or 1) that each piece runs.
  std::vector<int> call(std::uint64_t pieces, bool blocking, bool synchronises) {
    std::vector<int> guards;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      const std::uint64_t of = i > 0 || !blocking || synchronises ? 1 : pieces;
      const Turn turn = numbers_.next(0, blocking, of);
      EXPECT_EQ(turn.number, blocking_.size() + 1);
      if (turn.runs_guard) {
        EXPECT_EQ(turn.guard, guard_before_.size() + 1);
        EXPECT_LT(turn.before, turn.number) << "it would wait for itself";
        guard_before_.push_back(turn.before);
      }
      EXPECT_EQ(turn.guard, guard_before_.size());
      if (!guard_before_.empty()) finished_ = std::max(finished_, guard_before_.back());
      EXPECT_GE(finished_ + areas, turn.number) << "its area may still be in use";
      blocking_.push_back(blocking);
      guards.push_back(turn.runs_guard ? 1 : 0);
      if (blocking && synchronises) {
        numbers_.synchronised(turn.number);
        // All ranks have started it, so they have returned from the blocking calls before it.
        std::uint64_t known = finished_;
        while (known < turn.number - 1 && blocking_[known]) ++known;
        finished_ = known;
      }
    }
    return guards;
  }

 private:
  Numbering numbers_;
  std::vector<bool> blocking_;  // of number i + 1
  std::vector<std::uint64_t> guard_before_;
  std::uint64_t finished_ = 0;
};

int sum(const std::vector<int>& guards) {
  int sum = 0;
  for (const int guard : guards) sum += guard;
  return sum;
}

TEST(Numbering, area_is_reused_when_all_ranks_have_finished_with_it) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Sequence sequence;
    for (int i = 0; i < 100; ++i) sequence.call(1 + random() % 20, random() % 4 != 0, random() % 3 == 0);
  }
}

TEST(Numbering, synchronizing_collective_needs_no_guard) {
  Sequence sequence;
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(sum(sequence.call(1 + i % 12, true, true)), 0);
}

TEST(Numbering, guard_is_before_the_pieces_and_not_between_them) {
  Sequence sequence;
  for (int i = 0; i < 20; ++i) {
    sequence.call(1, true, true);  // a barrier
    const std::vector<int> guards = sequence.call(areas, true, false);
    EXPECT_LE(sum(guards), 1);
    EXPECT_EQ(sum(guards), guards.front()) << "a rank that only sends would wait for the receivers";
  }
}

TEST(Numbering, long_calls_have_one_guard_for_all_areas) {
  Sequence sequence;
  sequence.call(1, true, true);
  EXPECT_EQ(sum(sequence.call(10 * areas, true, false)), 10);
}

}  // namespace
}  // namespace hmc::collectives
