// Many more ranks than cores: start, communication, close.
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/spmd.hpp"

HMC_SPMD_TEST(Scale, every_rank_reaches_every_rank) {
  hmc::Team& world = me.runtime->world();
  const std::int64_t mine = me.rank + 1;
  std::int64_t sum = 0;
  world.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  HMC_CHECK_EQ(sum, std::int64_t{me.size} * (me.size + 1) / 2);

  hmc::Window win = hmc::Window::create(world, static_cast<std::size_t>(me.size) * 8);
  for (int peer = 0; peer < me.size; ++peer) win.put(peer, static_cast<std::uint64_t>(me.rank) * 8, &mine, 8);
  world.barrier();
  for (int rank = 0; rank < me.size; ++rank) HMC_CHECK_EQ(win.local<std::int64_t>()[rank], rank + 1);
  win.close();
}
