// Algorithm::scratch_size against the schedules: at least the maximum over all ranks, and not much more.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <string>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Calls f for all ranks of a small team, and for the ranks at the ends and node borders of a large one.
template <typename Function> void for_some_ranks(const Shape& shape, const Function& f) {
  for (int rank = 0; rank < shape.size; ++rank) {
    const int local = rank % shape.per_node;
    if (shape.size <= 12 || rank < 4 || rank >= shape.size - 4 || local == 0 || local == shape.per_node - 1) f(rank);
  }
}

struct Most {
  ScratchSize scratch_size;
  void take(const Schedule& schedule) {
    scratch_size.scratch = std::max(scratch_size.scratch, schedule.scratch_bytes);
    scratch_size.slots = std::max(scratch_size.slots, schedule.slots);
  }
};

Call call_of(const Algorithm& algorithm, std::uint64_t count, std::uint32_t element) {
  Call call;
  call.collective = algorithm.collective;
  call.count = count;
  call.element_bytes = element;
  call.in_place = algorithm.collective != CollectiveKind::alltoall;
  return call;
}

std::string text_of(const Algorithm& algorithm, const Shape& shape, const Call& call) {
  return std::string(name_of(algorithm.collective)) + ":" + std::string(algorithm.name) + ", " +
         std::to_string(shape.size) + " ranks, " + std::to_string(shape.per_node) + " per node, " +
         std::to_string(call.count) + " x " + std::to_string(call.element_bytes) + " bytes, root " +
         std::to_string(call.root);
}

void check(const Algorithm& algorithm, const Shape& shape, Call call) {
  const ScratchSize scratch_size = algorithm.scratch_size(shape, call);
  Most most;
  Schedule schedule;
  for (const int root : {0, shape.size - 1}) {
    call.root = root;
    for_some_ranks(shape, [&](int rank) {
      schedule.clear();
      algorithm.build_into(shape, call, rank, schedule);
      most.take(schedule);
    });
  }
  ASSERT_GE(scratch_size.scratch, most.scratch_size.scratch) << text_of(algorithm, shape, call);
  ASSERT_GE(scratch_size.slots, most.scratch_size.slots) << text_of(algorithm, shape, call);
  if (shape.size == 1 || call.count < static_cast<std::uint64_t>(shape.size)) return;  // some ranks have no data
  const std::uint64_t lines = static_cast<std::uint64_t>(64 * (shape.size + 8));
  ASSERT_LE(scratch_size.scratch, most.scratch_size.scratch * 5 / 4 + lines) << text_of(algorithm, shape, call);
  ASSERT_LE(scratch_size.slots, most.scratch_size.slots * 5 / 4 + 4) << text_of(algorithm, shape, call);
}

TEST(ScratchSize, size_bounds_every_rank_of_any_team) {
  for (const Algorithm& algorithm : algorithms())
    for (int size = 1; size <= 64; ++size)
      for (const int per_node : {1, 3, 8, size}) {
        if (per_node > size || (per_node > 1 && !algorithm.hierarchical)) continue;
        for (const std::uint64_t count : {0U, 1U, 63U, 20011U})
          check(algorithm, {size, per_node}, call_of(algorithm, count, 4));
        check(algorithm, {size, per_node}, call_of(algorithm, 300, 7));
      }
}

TEST(ScratchSize, size_of_v_forms_is_bounded_by_their_largest_block) {
  Schedule schedule;
  for (const Algorithm& algorithm : algorithms())
    for (const int size : {1, 2, 3, 5, 8, 13, 32}) {
      std::vector<std::uint64_t> counts;
      for (int rank = 0; rank < size; ++rank) counts.push_back(static_cast<std::uint64_t>(rank * 7919 % 1000));
      Call call = call_of(algorithm, 0, 8);
      call.counts = call.receive_counts = counts;
      call.largest = 1000;
      if (!has_blocks(algorithm.collective) || !algorithm.applies({size, 2}, call)) continue;
      Call bound = call;
      bound.count = 1000;
      const ScratchSize scratch_size = algorithm.scratch_size({size, 2}, bound);
      for (int rank = 0; rank < size; ++rank) {
        schedule.clear();
        algorithm.build_into({size, 2}, call, rank, schedule);
        ASSERT_GE(scratch_size.scratch, schedule.scratch_bytes)
            << text_of(algorithm, {size, 2}, call) << " rank " << rank;
        ASSERT_GE(scratch_size.slots, schedule.slots) << text_of(algorithm, {size, 2}, call) << " rank " << rank;
      }
    }
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The minimum of twenty runs, which excludes cold caches and other processes' load.
double least_cpu_seconds(const std::function<void()>& work) {
  double least = 1e9;
  for (int time = 0; time < 20; ++time) {
    const double start = cpu_seconds();
    work();
    least = std::min(least, cpu_seconds() - start);
  }
  return least;
}

TEST(ScratchSize, size_for_hundred_thousand_ranks_needs_no_schedules) {
  const Shape shape{100'000, 8};
  EXPECT_LT(least_cpu_seconds([&] {
              for (const Algorithm& algorithm : algorithms())
                EXPECT_GT(algorithm.scratch_size(shape, call_of(algorithm, 1 << 20, 4)).slots, 0U) << algorithm.name;
            }),
            0.005);
}

TEST(ScratchSize, one_rank_of_hundred_thousand_builds_its_schedule_alone) {
  const Shape shape{100'000, 8};
  for (const auto& [collective, name] :
       {std::pair{CollectiveKind::allreduce, "recursive_doubling"},
        std::pair{CollectiveKind::allreduce, "rabenseifner"},
        std::pair{CollectiveKind::allreduce, "hierarchical_halving"}, std::pair{CollectiveKind::broadcast, "binomial"},
        std::pair{CollectiveKind::barrier, "dissemination"}}) {
    const Algorithm* const algorithm = find(collective, name);
    ASSERT_NE(algorithm, nullptr);
    Schedule schedule;
    EXPECT_LT(least_cpu_seconds([&] { schedule = build(*algorithm, shape, call_of(*algorithm, 1 << 18, 4), 77'777); }),
              0.005)
        << name;
    EXPECT_LT(schedule.steps.capacity() * sizeof(Step), 64U << 10) << name;
  }
}

}  // namespace
}  // namespace hmc::collectives::schedule
