// All ranks select the same algorithm, and a counter reports it. The rows of a file are applied, on real wires.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/team/team_object.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using hmc::CollectiveKind;
using hmc::collectives::TeamObject;
using hmc::collectives::schedule::Algorithm;
using hmc::collectives::schedule::algorithms;
using hmc::spmd::Every;
using hmc::spmd::EveryCall;
using hmc::spmd::TestRank;

TeamObject& state_of(hmc::Team& team) { return *team.object(); }

/// The number of calls by each allreduce algorithm, and by load and store.
std::vector<std::uint64_t> counters(const hmc::Team& team) {
  std::vector<std::uint64_t> all;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == CollectiveKind::allreduce)
      all.push_back(team.calls_by_algorithm("allreduce", algorithm.name));
  all.push_back(team.calls_by_algorithm("allreduce", "direct"));
  return all;
}

std::string run(TestRank& me, hmc::Team& world, std::size_t count, std::uint64_t call) {
  Every what;
  what.collective = CollectiveKind::allreduce;
  what.count = count;
  what.call = call;
  EveryCall each(me.rank, me.size, what);
  each.blocking(world);
  return each.check();
}

}  // namespace

HMC_SPMD_TEST(Selection, ranks_agree_on_parameters_and_on_every_choice) {
  hmc::Team& world = me.runtime->world();
  const auto& parameters = state_of(world).selector().parameters();
  std::vector<unsigned char> mine(sizeof parameters), all(sizeof parameters * static_cast<std::size_t>(me.size));
  std::memcpy(mine.data(), &parameters, sizeof parameters);
  world.allgather(mine.data(), all.data(), mine.size());
  for (int rank = 0; rank < me.size; ++rank)
    HMC_CHECK_EQ(std::memcmp(all.data() + static_cast<std::size_t>(rank) * mine.size(), mine.data(), mine.size()), 0);

  std::uint64_t call = 0;
  for (const std::size_t count : {1U, 3U, 100U, 5000U, 60'001U}) {
    HMC_CHECK_EQ(run(me, world, count, ++call), "");
    const std::vector<std::uint64_t> taken = counters(world);
    std::vector<std::uint64_t> least(taken.size()), most(taken.size());
    world.allreduce(taken.data(), least.data(), taken.size(), hmc::DType::u64, hmc::min);
    world.allreduce(taken.data(), most.data(), taken.size(), hmc::DType::u64, hmc::max);
    HMC_CHECK(least == most);
  }
}

HMC_SPMD_TEST(Selection, counters_have_calls_by_load_and_store) {
  hmc::Team& world = me.runtime->world();
  const bool one_node = state_of(world).shape().nodes() == 1 && me.runtime->path((me.rank + 1) % me.size).direct;
  for (const char* const collective : {"barrier", "allreduce"}) {
    const std::uint64_t before = world.calls_by_algorithm(collective, "direct");
    std::uint64_t value = 1;
    if (collective[0] == 'b')
      world.barrier();
    else
      world.allreduce(&value, &value, 1, hmc::DType::u64, hmc::sum);
    HMC_CHECK_EQ(world.calls_by_algorithm(collective, "direct") - before, one_node ? 1U : 0U);
  }
  HMC_CHECK_EQ(world.calls_by_algorithm("scan", "direct"), 0U);
  HMC_CHECK_EQ(world.calls_by_algorithm("nothing", "direct"), 0U);
}

/// Run with HMC_COLL_FILE=selection_rows.json. Its rows: swing up to 64 bytes, fold_slices up to 4 KiB, no row above.
HMC_SPMD_TEST(SelectionFile, rows_of_the_file_are_used) {
  hmc::Team& world = me.runtime->world();
  const auto taken = [&](const char* algorithm) { return world.calls_by_algorithm("allreduce", algorithm); };
  const std::uint64_t swing = taken("swing"), fold = taken("fold_slices");
  HMC_CHECK_EQ(run(me, world, 8, 1), "");
  HMC_CHECK_EQ(taken("swing") - swing, 1U);
  HMC_CHECK_EQ(run(me, world, 9, 2), "");
  HMC_CHECK_EQ(run(me, world, 512, 3), "");
  HMC_CHECK_EQ(taken("fold_slices") - fold, 2U);
  const std::uint64_t direct = taken("direct");
  HMC_CHECK_EQ(run(me, world, 513, 4), "");
  HMC_CHECK_EQ(taken("swing") + taken("fold_slices") - swing - fold, 3U);
  if (state_of(world).shape().nodes() == 1 && me.runtime->path(0).direct) HMC_CHECK_EQ(taken("direct") - direct, 1U);
}
