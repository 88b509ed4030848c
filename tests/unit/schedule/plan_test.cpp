// The cases that hmc-verify proves and those that it skips. An algorithm isn't proved by cases that move no data.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "verify/cases.hpp"

namespace {

using namespace hmc::verify;

struct Chosen {
  int with_count = 0;  ///< proved cases with a count
  int taken = 0, left_out = 0;
};

Chosen chosen_of(const schedule::Algorithm& algorithm, int size, double limit) {
  Chosen chosen;
  const auto take = [&](const Case& subject) {
    ++chosen.taken;
    if (subject.has_count()) ++chosen.with_count;
  };
  for_each_case_within(limit, algorithm, size, Effort::full, take, [&](const Case&) { ++chosen.left_out; });
  return chosen;
}

const schedule::Algorithm& algorithm_of(CollectiveKind collective, std::string_view name) {
  for (const schedule::Algorithm& algorithm : schedule::algorithms())
    if (algorithm.collective == collective && algorithm.name == name) return algorithm;
  throw std::logic_error("no such algorithm");
}

TEST(Plan, every_algorithm_moves_data_on_more_than_256_ranks) {
  for (const schedule::Algorithm& algorithm : schedule::algorithms()) {
    int with_count = 0;
    for (const int size : sizes_for(Effort::full))
      if (size > 256 && with_count == 0) with_count = chosen_of(algorithm, size, usual_limit).with_count;
    EXPECT_GT(with_count, 0) << name_of(algorithm.collective) << ":" << algorithm.name;
  }
}

// Algorithms with O(log N) messages cost little even on the largest team.
TEST(Plan, logarithmic_algorithms_move_data_on_the_largest_team) {
  for (const auto& [collective, name] : {std::pair{CollectiveKind::allreduce, "recursive_doubling"},
                                         {CollectiveKind::allreduce, "rabenseifner"},
                                         {CollectiveKind::allgather, "bruck"},
                                         {CollectiveKind::broadcast, "binomial"},
                                         {CollectiveKind::gather, "binomial"},
                                         {CollectiveKind::scan, "recursive_doubling"}})
    EXPECT_GT(chosen_of(algorithm_of(collective, name), 4096, usual_limit).with_count, 1) << name;
  EXPECT_GT(chosen_of(algorithm_of(CollectiveKind::allgather, "pat"), 1000, usual_limit).with_count, 0);
}

TEST(Plan, every_case_is_proved_or_reported_as_omitted) {
  const schedule::Algorithm& ring = algorithm_of(CollectiveKind::allgather, "ring");
  int all = 0;
  for_each_case(ring, 1000, Effort::full, [&](const Case&) { ++all; });
  for (const double limit : {0.0, usual_limit, 1e15}) {
    const Chosen chosen = chosen_of(ring, 1000, limit);
    EXPECT_EQ(chosen.taken + chosen.left_out, all) << limit;
    EXPECT_EQ(chosen.with_count == 0, limit == 0.0) << limit;
    EXPECT_EQ(chosen.left_out == 0, limit == 1e15) << limit;
  }
  EXPECT_EQ(chosen_of(ring, 64, 0.0).left_out, 0);  // small teams: all cases are proved
}

}  // namespace
