// HMC_PROGRESS=caller: there is no progress thread. Non-blocking collectives progress only in the caller's calls.
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using namespace std::chrono_literals;

}  // namespace

HMC_SPMD_TEST(CallerDriven, requests_progress_only_in_calls) {
  const char* const how = std::getenv("HMC_PROGRESS");
  HMC_CHECK_MSG(how != nullptr && std::string_view(how) == "caller", "to be run with HMC_PROGRESS=caller");
  hmc::Team& world = me.runtime->world();
  hmc::Team other = world.duplicate();
  const auto& schedules = world.object()->schedules();
  std::uint64_t left_under_way = 0;
  for (std::uint64_t round = 0; round < 3; ++round) {
    Every what;
    what.collective = CollectiveKind::allreduce;
    what.count = 500'003;
    what.call = round;
    EveryCall call(me.rank, me.size, what);
    hmc::Request request = call.start(world);
    const std::uint64_t moves = schedules.moves();
    if (schedules.goes_on()) ++left_under_way;
    std::this_thread::sleep_for(20ms);  // on purpose: long enough for a thread to make progress
    HMC_CHECK_EQ(schedules.moves(), moves);
    if (round == 1)
      while (!request.test()) std::this_thread::yield();
    request.wait();
    HMC_CHECK_CLEAN(call.check());
  }
  HMC_CHECK(!world.core()->fabric().background.is_running());
  std::uint64_t by_any = 0;
  other.allreduce(&left_under_way, &by_any, 1, hmc::DType::u64, hmc::sum);
  HMC_CHECK_EQ(by_any > 0, me.size > 1);
  other.close();
}
