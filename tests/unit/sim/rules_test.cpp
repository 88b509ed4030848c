// Samples of the rule tables, taken from the libraries' sources by hand. Also: every choice can be replayed.
#include "sim/rules/rules.hpp"

#include <gtest/gtest.h>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "sim/report.hpp"
#include "sim/survey.hpp"

namespace hmc::sim::rules {
namespace {

using C = CollectiveKind;
using schedule::Shape;

std::string theirs(LibraryChoice (*rules)(const LibraryCall&), C collective, std::uint64_t bytes, Shape shape) {
  return rules({collective, bytes, shape}).theirs;
}

TEST(Pick, first_matching_bound_is_used) {
  EXPECT_EQ(pick("a <8, b <=64, c", 7), "a");
  EXPECT_EQ(pick("a <8, b <=64, c", 8), "b");
  EXPECT_EQ(pick("a <8, b <=64, c", 64), "b");
  EXPECT_EQ(pick("a <8, b <=64, c", 65), "c");
  EXPECT_EQ(pick("a", 1 << 30), "a");
  EXPECT_THROW(pick("a <8", 8), std::logic_error);
}

TEST(OpenMpi, allreduce_follows_the_open_mpi_rules) {
  EXPECT_EQ(theirs(openmpi, C::allreduce, 8, {2, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 1 << 20, {2, 1}), "rabenseifner");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 100'000, {3, 1}), "segmented_ring");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 8191, {15, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 8192, {15, 1}), "rabenseifner");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 262'143, {100, 4}), "recursive_doubling");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 1 << 20, {65536, 8}), "rabenseifner");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 1000, {65536, 8}), "nonoverlapping of binomial and knomial");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 1024, {65536, 8}), "nonoverlapping of in-order_binary and knomial");
}

TEST(OpenMpi, small_messages_use_the_fallback) {
  // 40 ranks, 64 bytes: the table selects segmented ring, but there are only 16 elements.
  EXPECT_EQ(theirs(openmpi, C::allreduce, 64, {40, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(openmpi, C::allreduce, 40'000, {65536, 1}), "basic_linear");
  EXPECT_TRUE(openmpi({C::allreduce, 40'000, {65536, 1}}).phases.empty());
}

TEST(OpenMpi, other_collectives_follow_the_open_mpi_rules) {
  EXPECT_EQ(theirs(openmpi, C::barrier, 0, {16, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(openmpi, C::barrier, 0, {300, 1}), "tree");
  EXPECT_EQ(theirs(openmpi, C::broadcast, 1 << 20, {32, 1}), "knomial");
  EXPECT_EQ(theirs(openmpi, C::broadcast, 1 << 20, {31, 1}), "scatter_allgather");
  EXPECT_EQ(theirs(openmpi, C::allgather, 8, {2, 1}), "two_proc");
  EXPECT_EQ(theirs(openmpi, C::allgather, 65536, {64, 1}), "ring");
  EXPECT_EQ(theirs(openmpi, C::alltoall, 64, {64, 1}), "modified_bruck");
  EXPECT_EQ(theirs(openmpi, C::gather, 4096, {400, 1}), "basic_linear");
  EXPECT_EQ(theirs(openmpi, C::scatter, 4096, {400, 1}), "linear_nb");
  EXPECT_EQ(theirs(openmpi, C::reduce_scatter, 1024, {64, 1}), "butterfly");
}

TEST(Mpich, flat_collectives_follow_the_mpich_rules) {
  EXPECT_EQ(theirs(mpich, C::allreduce, 8, {64, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(mpich, C::allreduce, 1024, {64, 1}), "reduce_scatter_allgather");
  EXPECT_EQ(theirs(mpich, C::allreduce, 128, {64, 1}), "recursive_doubling");  // 32 elements, 64 ranks
  EXPECT_EQ(theirs(mpich, C::broadcast, 12'288, {64, 1}), "binomial");
  EXPECT_EQ(theirs(mpich, C::broadcast, 12'289, {64, 1}), "scatter_recursive_doubling_allgather");
  EXPECT_EQ(theirs(mpich, C::broadcast, 12'289, {65, 1}), "scatter_ring_allgather");
  EXPECT_EQ(theirs(mpich, C::broadcast, 1 << 20, {7, 1}), "binomial");
  EXPECT_EQ(theirs(mpich, C::allgather, 8191, {64, 1}), "recursive_doubling");
  EXPECT_EQ(theirs(mpich, C::allgather, 8192, {64, 1}), "ring");
  EXPECT_EQ(theirs(mpich, C::alltoall, 256, {64, 1}), "brucks");
  EXPECT_EQ(theirs(mpich, C::alltoall, 257, {64, 1}), "scattered");
}

TEST(Mpich, hierarchical_collectives_follow_the_mpich_rules) {
  const LibraryChoice allreduce = mpich({C::allreduce, 1 << 20, {64, 8}});
  EXPECT_EQ(allreduce.theirs, "reduce_scatter_allgather of nodes");
  ASSERT_EQ(allreduce.phases.size(), 3U);
  EXPECT_EQ(allreduce.phases[0].scope, PhaseScope::node);
  EXPECT_EQ(allreduce.phases[1].scope, PhaseScope::leaders);
  EXPECT_EQ(allreduce.phases[2].collective, C::broadcast);
  EXPECT_EQ(theirs(mpich, C::broadcast, 1 << 20, {64, 8}), "scatter_ring_allgather");  // flat from 512 KiB
  EXPECT_EQ(theirs(mpich, C::broadcast, 4096, {64, 8}), "binomial of nodes");
  EXPECT_EQ(theirs(mpich, C::allreduce, 8, {8, 8}), "release_gather");
}

TEST(Choices, every_phase_is_a_known_schedule) {
  for (int i = 0; i < collective_count; ++i) {
    for (const Shape shape : {Shape{2, 1}, Shape{3, 1}, Shape{7, 7}, Shape{16, 4}, Shape{60, 1}, Shape{1000, 8}}) {
      for (std::uint64_t bytes = 4; bytes <= 8 << 20; bytes *= 2) {
        for (const auto& rules : {openmpi, mpich}) {
          for (const ReplayPhase& phase : rules({static_cast<C>(i), bytes, shape}).phases)
            EXPECT_NE(schedule::find(phase.collective, phase.algorithm), nullptr)
                << name_of(phase.collective) << " " << phase.algorithm;
        }
      }
    }
  }
}

Surveyor surveyor_of_built_in_figures() {
  return Surveyor(Model{}, collectives::Selector({}, {}, schedule::CostParameters{}), false, ReplayLimits{}, {});
}

TEST(Surveys, surveys_have_the_choices_of_libraries) {
  Surveyor surveyor = surveyor_of_built_in_figures();
  const Survey survey = surveyor.survey({C::allreduce, 1 << 20, {64, 1}});
  ASSERT_EQ(survey.libraries.size(), 2U);
  EXPECT_EQ(survey.libraries[0].name, "open mpi: rabenseifner");
  for (const SurveyRow& line : survey.ours) {
    if (line.name == "rabenseifner") {
      EXPECT_GT(line.pieces, 1U);  // HMC splits the call into pieces, the other library doesn't
      EXPECT_GT(line.time, survey.libraries[0].time);
    }
  }
  EXPECT_TRUE(std::is_sorted(survey.ours.begin(), survey.ours.end(), [](const SurveyRow& a, const SurveyRow& b) {
    return a.time.value_or(INT64_MAX) < b.time.value_or(INT64_MAX);
  }));
  EXPECT_NE(text_of(survey).find("open mpi: rabenseifner"), std::string::npos);
  EXPECT_EQ(text_of(survey), text_of(surveyor_of_built_in_figures().survey(survey.question)));
}

}  // namespace
}  // namespace hmc::sim::rules
