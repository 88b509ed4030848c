// Random verbs compared with a shadow model.
//   --seed N or HMC_TEST_SEED=N replays one run; --set verbs=N, --set seeds=N
#include <cstdlib>
#include <string>

#include "tests/multirank/random_verbs.hpp"
#include "tests/support/spmd.hpp"

namespace {

using namespace hmc::spmd;

constexpr std::uint64_t verbs_per_epoch = 100;

}  // namespace

HMC_SPMD_TEST(Property, random_verbs_match_the_model) {
  const char* const given = std::getenv("HMC_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::stoull(given) : me.options.seed;
  const std::uint64_t seeds = std::stoull(me.options.setting("seeds", "4"));
  const std::uint64_t verbs = std::stoull(me.options.setting("verbs", "10000")) / static_cast<std::uint64_t>(me.size);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    RandomVerbs run(me.runtime->world(), seed);
    for (std::uint64_t epoch = 0; epoch * verbs_per_epoch < verbs; ++epoch) run.epoch(epoch, verbs_per_epoch);
    run.close();
  }
}
