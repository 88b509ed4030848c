// Every collective by every algorithm, in all its forms.
#include <cstring>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using hmc::has_blocks;
using hmc::reduces;
using hmc::collectives::schedule::algorithms;

void run_one(TestRank& me, const Algorithm& algorithm, const Every& what) {
  EveryCall call(me.rank, me.size, what);
  call.blocking(me.runtime->world());
  const std::string wrong = call.check();
  HMC_CHECK_MSG(wrong.empty(), "{} by {}: {} (count {}, root {}{}{}{})", name_of(what.collective), algorithm.name,
                wrong, what.count, what.root, what.irregular ? ", v-form" : "", what.in_place ? ", in place" : "",
                what.user ? ", user's function" : "");
}

/// Runs every form of this collective with this count.
void run_forms(TestRank& me, const Algorithm& algorithm, std::size_t count, std::uint64_t& number) {
  for (const bool irregular : {false, true}) {
    if (irregular && !has_blocks(algorithm.collective)) continue;
    for (const bool in_place : {false, true}) {
      for (const bool user : {false, true}) {
        if (user && !(reduces(algorithm.collective) && algorithm.keeps_order)) continue;
        for (const int root : {0, me.size - 1, me.size / 2}) {
          if (root > 0 && !has_root(algorithm.collective)) continue;
          Every what;
          what.collective = algorithm.collective;
          what.count = count;
          what.root = root;
          what.irregular = irregular;
          // Ranks may choose differently.
          what.in_place = in_place && (number % 2 == 0 || (number + static_cast<std::uint64_t>(me.rank)) % 3 != 0);
          what.user = user;
          what.call = ++number;
          run_one(me, algorithm, what);
        }
      }
    }
  }
}

}  // namespace

HMC_SPMD_TEST(Algorithms, every_algorithm_supports_every_count_and_form) {
  std::uint64_t number = 0;
  for (const Algorithm& algorithm : algorithms()) {
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    for (const int count : {0, 1, me.size - 1, me.size, 13, 700})
      run_forms(me, algorithm, static_cast<std::size_t>(count), number);
  }
}

HMC_SPMD_TEST(Algorithms, every_algorithm_splits_into_pieces) {
  std::uint64_t number = 1'000'000;
  // Blocks or vectors of several pieces or segments. An area holds at most half a MiB.
  const bool one_node = me.runtime->path(0).direct && me.runtime->path(me.size - 1).direct;
  for (const Algorithm& algorithm : algorithms()) {
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    // If not every rank waits for all others, use more pieces than there are areas: areas are then reused behind a
    // guard.
    const bool all_wait_for_all =
        algorithm.collective == CollectiveKind::allreduce || algorithm.collective == CollectiveKind::allgather ||
        algorithm.collective == CollectiveKind::alltoall || algorithm.collective == CollectiveKind::reduce_scatter;
    const std::size_t less = one_node && all_wait_for_all && !algorithm.gets ? 8 : 1;
    const std::size_t words =
        (has_blocks(algorithm.collective) ? 300'001 / static_cast<std::size_t>(me.size) : 200'003) / less;
    run_forms(me, algorithm, words, number);
  }
}

// Blocks from another node are received directly into the output and forwarded from there, unless all of them arrive
// before the call starts. The latter doesn't happen every time.
HMC_SPMD_TEST(Algorithms, forwarded_data_is_received_too) {
  for (const char* name : {"ring", "ring_segmented", "hierarchical_ring"}) {
    const Algorithm& algorithm = *hmc::collectives::schedule::find(CollectiveKind::allgather, name);
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    const std::uint64_t before = me.runtime->counters().direct_receives;
    Every what;
    what.collective = algorithm.collective;
    what.count = 40'000;
    for (what.call = 1; what.call <= 20; ++what.call) {
      what.irregular = what.call % 2 == 0;
      run_one(me, algorithm, what);
    }
    const bool from_afar = me.size > 2 && !me.runtime->path(me.previous()).direct;
    if (from_afar && algorithm.name != "ring_segmented")  // its runs may be too short
      HMC_CHECK_GE(me.runtime->counters().direct_receives - before, 1U);
  }
}

HMC_SPMD_TEST(Algorithms, forced_algorithm_is_used) {
  hmc::Team& world = me.runtime->world();
  for (const Algorithm& algorithm : algorithms()) {
    const Forced forced(world, algorithm.collective, &algorithm);
    const std::uint64_t before = world.calls_by_algorithm(name_of(algorithm.collective), algorithm.name);
    Every what;
    what.collective = algorithm.collective;
    what.count = 5;
    EveryCall call(me.rank, me.size, what);
    call.blocking(world);
    const std::uint64_t now = world.calls_by_algorithm(name_of(algorithm.collective), algorithm.name);
    const auto& state = *world.object();
    hmc::collectives::schedule::Call plain;
    plain.collective = algorithm.collective;
    plain.count = 5;
    HMC_CHECK_EQ(now - before, algorithm.applies(state.shape(), plain) ? 1U : 0U);
  }
}

HMC_SPMD_TEST(Algorithms, reductions_support_every_type_and_operation) {
  Grounds grounds(me, 1000 * 8);
  std::uint64_t call = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != CollectiveKind::allreduce) continue;
    const Forced forced(me.runtime->world(), algorithm.collective, &algorithm);
    for (const hmc::DType type : hmc::collectives::all_types) {
      for (const hmc::Op op : hmc::collectives::all_ops) {
        if (!is_defined(type, op)) continue;
        hmc::collectives::with_type(type, [&](auto zero) {
          using T = decltype(zero);
          for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{1000}}) {
            ++call;
            check_allreduce<T>(me, grounds, Placing::any(me.rank, call, sizeof(T)), count, op, call);
          }
        });
      }
    }
  }
  grounds.close();
}

// These sums depend on the order of addition and on its grouping: all ranks must use the same.
HMC_SPMD_TEST(Algorithms, all_ranks_have_the_same_bits) {
  hmc::Team& world = me.runtime->world();
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != CollectiveKind::allreduce) continue;
    const Forced forced(world, algorithm.collective, &algorithm);
    for (const std::size_t count : {std::size_t{3}, std::size_t{1001}}) {
      std::vector<float> in(count), out(count), all(count * static_cast<std::size_t>(me.size));
      for (std::size_t i = 0; i < count; ++i)
        in[i] = static_cast<float>(Pattern{me.rank, count}.word(i) % 1'000'003) * (i % 3 == 0 ? 1e-3F : 1.7F);
      world.allreduce(in, out, hmc::sum);
      world.allgather(out, all);
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(me.size); ++rank)
        HMC_CHECK_MSG(std::memcmp(all.data() + rank * count, out.data(), count * 4) == 0, "{}: rank {} has other bits",
                      algorithm.name, rank);
    }
  }
}
