// Invalid arguments of team creation.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Team;

/// Checks that the parent team still works.
void use(TestRank& me, Team& team) {
  const std::int32_t mine = me.rank;
  std::int32_t most = -1;
  team.allreduce(std::span(&mine, 1), std::span(&most, 1), hmc::max);
  HMC_CHECK_EQ(most, me.size - 1);
}

/// Every rank gets this code and a text that names the rank at fault.
template <typename Make> void check_refused(TestRank& me, hmc::Code code, int guilty, Make&& make) {
  try {
    make();
    fail_check(__FILE__, __LINE__, "a team was made");
  } catch (const hmc::Error& error) {
    HMC_CHECK_MSG(error.code() == code, "threw '{}'", error.what());
    HMC_CHECK_EQ(error.peer(), guilty);
    HMC_CHECK_EQ(error.rank(), me.rank);
    HMC_CHECK_MSG(std::string(error.what()).find(fmt::format("{}", guilty)) != std::string::npos, "the text is '{}'",
                  error.what());
  }
  use(me, me.runtime->world());
}

}  // namespace

HMC_SPMD_TEST(TeamErrors, invalid_lists_are_rejected) {
  Team& world = me.runtime->world();
  const int last = me.size - 1;
  check_refused(me, hmc::Code::invalid_argument, 0, [&] { (void)world.subset(std::vector<int>{0, me.size}); });
  check_refused(me, hmc::Code::invalid_argument, 0, [&] { (void)world.subset(std::vector<int>{-1}); });
  check_refused(me, hmc::Code::invalid_argument, 0, [&] { (void)world.subset(std::vector<int>{0, last, 0, last}); });
  // Only one rank's list is wrong; all ranks get the error.
  check_refused(me, hmc::Code::invalid_argument, last,
                [&] { (void)world.subset(std::vector<int>{me.rank == last ? me.size : 0}); });
}

HMC_SPMD_TEST(TeamErrors, different_lists_are_rejected) {
  if (me.size < 2) skip("needs two lists");
  Team& world = me.runtime->world();
  const int last = me.size - 1;
  check_refused(me, hmc::Code::mismatch, last, [&] {
    (void)world.subset(me.rank == last ? std::vector<int>{0, 1} : std::vector<int>{1, 0});
  });
  check_refused(me, hmc::Code::mismatch, last, [&] {
    if (me.rank == last) {
      (void)world.duplicate();
    } else {
      (void)world.split(0);
    }
  });
}

HMC_SPMD_TEST(TeamErrors, allocation_failure_keeps_ranks_in_step) {
  if (!me.options.processes || me.size < 2) skip("limits a process");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip("a sanitizer maps memory too");
#endif
  Team& world = me.runtime->world();
  const bool limited = me.rank % 2 == 1;
  // Address space for malloc, and too little for the team's memory.
  rlimit before{};
  HMC_CHECK_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit little{pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (512 << 10), before.rlim_max};
  if (limited) HMC_CHECK_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  std::string failure;
  Team team;
  try {
    team = world.split(limited ? 1 : 0, -me.rank);
  } catch (const hmc::Error& error) {
    failure = error.what();
  }
  HMC_CHECK_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  HMC_CHECK_MSG(failure.empty() == !limited, "'{}'", failure);
  use(me, world);
  if (team) team.close();
  world.split(limited ? 1 : 0).close();
}

HMC_SPMD_TEST(TeamErrors, world_cannot_be_closed_as_a_team) {
  Team& world = me.runtime->world();
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.close());
  HMC_CHECK_THROWS(hmc::Code::bad_rank, (void)world.world_rank(me.size));
  HMC_CHECK_THROWS(hmc::Code::bad_rank, (void)world.world_rank(-1));
  use(me, world);
}
