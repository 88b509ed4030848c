// Leak test: creating and closing teams doesn't grow descriptors, mappings or memory.
#include <optional>

#include <hmc/hmc.hpp>

#include "tests/fault/usage.hpp"
#include "tests/support/spmd.hpp"

using hmc::Team;

HMC_SPMD_TEST(Leftovers, hundred_teams_leak_nothing) {
  Team& world = me.runtime->world();
  const auto round = [&](int number) {
    Team team = world.split((me.rank + number) % 2, number % 3 == 0 ? -me.rank : me.rank);
    hmc::Window win = hmc::Window::create(team, 4096);
    const auto value = static_cast<std::uint64_t>(number);
    win.put_signal((team.rank() + 1) % team.size(), 64, &value, 8, 0, 1);
    win.wait_until(0, hmc::Cmp::eq, 1);
    team.iallreduce(&value, win.data() + 128, 1, hmc::DType::u64, hmc::max).wait();
    HMC_CHECK_EQ(*win.local<std::uint64_t>(128), value);
    win.close();
    team.close();
  };
  // A rank's background thread starts when an operation is in flight at the end of a call, so each rank in turn starts
  // one before the others.
  Team second = world.duplicate();
  for (int first = 0; first < me.size; ++first) {
    hmc::Request started;
    if (me.rank == first) started = second.ibarrier();
    world.barrier();
    if (me.rank != first) started = second.ibarrier();
    started.wait();
    world.barrier();
  }
  second.close();
  for (int i = 0; i < 20; ++i) round(i);  // warm-up: malloc's arenas, lazy binding, pools of the wires, connections
  world.barrier();
  std::optional<hmc::fault::Usage> before;
  const bool looks = me.options.processes || me.rank == 0;
  if (looks) before.emplace();
  world.barrier();
  for (int i = 0; i < 100; ++i) round(i);
  world.barrier();
  if (looks) HMC_CHECK_EQ(hmc::fault::Usage().growth_since(*before, hmc::fault::memory_is_ours), std::string());
  world.barrier();
}
