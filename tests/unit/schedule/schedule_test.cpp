// Properties of algorithms besides correctness: number of rounds, volume, and the calls to which they apply.
#include "collectives/schedule/algorithms/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace {

using namespace hmc::collectives::schedule;
using hmc::collective_count;
using hmc::CollectiveKind;

Call call_of(CollectiveKind collective, std::uint64_t count) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = 4;
  return call;
}

const Algorithm& named(CollectiveKind collective, std::string_view name) {
  const Algorithm* found = find(collective, name);
  if (!found) throw std::logic_error("no such algorithm");
  return *found;
}

std::size_t count_of(const Schedule& schedule, StepKind kind) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) { return step.kind == kind; }));
}

bool are_equal(const Schedule& a, const Schedule& b) {
  return a.scratch_bytes == b.scratch_bytes && a.slots == b.slots && a.steps.size() == b.steps.size() &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), [](const Step& x, const Step& y) {
           return x.kind == y.kind && x.from_buffer == y.from_buffer && x.to_buffer == y.to_buffer &&
                  x.reversed == y.reversed && x.inputs == y.inputs && x.peer == y.peer && x.slot == y.slot &&
                  x.from == y.from && x.to == y.to && x.bytes == y.bytes;
         });
}

TEST(Schedule, names_are_unique_and_found) {
  for (const Algorithm& algorithm : algorithms()) EXPECT_EQ(find(algorithm.collective, algorithm.name), &algorithm);
  EXPECT_EQ(find(CollectiveKind::barrier, "no such"), nullptr);
}

TEST(Schedule, every_collective_has_an_algorithm_for_every_call) {
  for (int i = 0; i < collective_count; ++i) {
    Call call = call_of(static_cast<CollectiveKind>(i), 5);
    const auto has_one = [&] {
      return std::any_of(algorithms().begin(), algorithms().end(), [&](const Algorithm& algorithm) {
        return algorithm.applies({7, 1}, call);
      });
    };
    EXPECT_TRUE(has_one()) << i;
    call.commutative = false;
    EXPECT_TRUE(has_one()) << i;
    call.deterministic = true;
    EXPECT_TRUE(has_one()) << i;
  }
}

TEST(Schedule, algorithm_rejects_unsupported_calls) {
  Call call = call_of(CollectiveKind::allreduce, 5);
  EXPECT_TRUE(named(CollectiveKind::allreduce, "ring").applies({4, 1}, call));
  call.commutative = false;
  EXPECT_FALSE(named(CollectiveKind::allreduce, "ring").applies({4, 1}, call));
  EXPECT_TRUE(named(CollectiveKind::allreduce, "rabenseifner").applies({4, 1}, call));
  call.deterministic = true;
  EXPECT_FALSE(named(CollectiveKind::allreduce, "rabenseifner").applies({4, 1}, call));
  EXPECT_TRUE(named(CollectiveKind::allreduce, "fold_slices").applies({4, 1}, call));
  EXPECT_FALSE(named(CollectiveKind::allreduce, "ring").applies({4, 1}, call_of(CollectiveKind::barrier, 0)));
  Call average = call_of(CollectiveKind::scan, 5);
  average.op = hmc::Op::avg;
  EXPECT_FALSE(named(CollectiveKind::scan, "recursive_doubling").applies({4, 1}, average));
}

TEST(Schedule, second_build_is_equal_also_in_used_memory) {
  const Call call = call_of(CollectiveKind::allreduce, 1000);
  Schedule used = build(named(CollectiveKind::allreduce, "ring"), {9, 1}, call, 3);
  for (const char* name : {"rabenseifner", "swing", "double_tree", "recursive_multiplying", "hierarchical"}) {
    const Algorithm& algorithm = named(CollectiveKind::allreduce, name);
    used.clear();
    algorithm.build_into({9, 2}, call, 4, used);
    EXPECT_TRUE(are_equal(used, build(algorithm, {9, 2}, call, 4))) << name;
  }
}

TEST(Schedule, dissemination_has_one_round_per_doubling) {
  for (const auto& [size, rounds] : {std::pair{1, 0}, {2, 1}, {3, 2}, {8, 3}, {9, 4}, {1000000, 20}}) {
    const Schedule schedule = build(named(CollectiveKind::barrier, "dissemination"), {size, 1},
                                    call_of(CollectiveKind::barrier, 0), size / 2);
    EXPECT_EQ(count_of(schedule, StepKind::put), static_cast<std::size_t>(rounds)) << size;
    EXPECT_EQ(count_of(schedule, StepKind::wait), static_cast<std::size_t>(rounds)) << size;
  }
}

TEST(Schedule, logarithmic_algorithms_are_small_at_a_million_ranks) {
  const Shape shape{1000000, 8};
  for (const auto& [collective, name] : {std::pair{CollectiveKind::broadcast, "binomial"},
                                         {CollectiveKind::allreduce, "recursive_doubling"},
                                         {CollectiveKind::allreduce, "rabenseifner"},
                                         {CollectiveKind::allreduce, "swing"},
                                         {CollectiveKind::allreduce, "hierarchical"},
                                         {CollectiveKind::reduce, "binomial"},
                                         {CollectiveKind::scan, "recursive_doubling"}})
    for (const int rank : {0, 1, 524287, 999999})
      EXPECT_LE(build(named(collective, name), shape, call_of(collective, 100), rank).steps.size(), 130U)
          << name << " " << rank;
}

/// Bytes of all ranks' puts, divided by the bytes of the vector.
double volume_of(const char* name, int size, std::uint64_t count) {
  const Call call = call_of(CollectiveKind::allreduce, count);
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < size; ++rank)
    for (const Step& step : build(named(CollectiveKind::allreduce, name), {size, 1}, call, rank).steps)
      if (step.kind == StepKind::put) bytes += step.bytes;
  return static_cast<double>(bytes) / static_cast<double>(count * 4);
}

TEST(Schedule, long_vectors_have_minimal_traffic) {
  // 2 (N-1) vectors in all is the minimum for an allreduce without multicast.
  for (const char* name : {"ring", "ring_segmented", "rabenseifner", "swing", "double_tree"})
    EXPECT_NEAR(volume_of(name, 8, 8000), 14.0, 0.01) << name;
  EXPECT_NEAR(volume_of("recursive_doubling", 8, 8000), 24.0, 0.01);
}

TEST(Schedule, one_slice_per_rank_crosses_between_nodes) {
  const Call call = call_of(CollectiveKind::allreduce, 8000);
  for (int rank = 0; rank < 8; ++rank) {
    std::uint64_t crossing = 0;
    for (const Step& step : build(named(CollectiveKind::allreduce, "hierarchical"), {8, 4}, call, rank).steps)
      if (step.kind == StepKind::put && static_cast<int>(step.peer) / 4 != rank / 4) crossing += step.bytes;
    EXPECT_EQ(crossing, 8000U);  // a quarter of 32000 bytes
  }
}

TEST(Schedule, pairwise_alltoall_bounds_its_scratch) {
  const Call call = call_of(CollectiveKind::alltoall, 1 << 20);
  const Schedule schedule = build(named(CollectiveKind::alltoall, "pairwise"), {64, 1}, call, 5);
  EXPECT_LE(schedule.scratch_bytes, std::uint64_t{8} << 20);
}

}  // namespace
