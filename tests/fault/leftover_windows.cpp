// Leak test: creating and closing windows doesn't grow descriptors, memory or files.
#include <optional>

#include <hmc/hmc.hpp>

#include "tests/fault/usage.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Window;
using hmc::fault::Usage;
using hmc::spmd::TestRank;

constexpr int warm_up = 50;  // malloc's arenas, lazy binding, pools of the wires

/// Repeats `round`. With ranks as processes each rank measures itself; with ranks as threads rank 0 measures the
/// process.
template <typename Round> void expect_flat(TestRank& me, Round&& round) {
  const int rounds = std::stoi(me.options.setting("rounds", "1000"));
  const bool looks = me.options.processes || me.rank == 0;
  for (int i = 0; i < warm_up; ++i) {
    round(i);
    me.runtime->world().barrier();  // makes all connections now, before the first measurement
  }
  std::optional<Usage> before;
  if (looks) before.emplace();
  me.runtime->world().barrier();
  for (int i = 0; i < rounds; ++i) round(i);
  me.runtime->world().barrier();
  // Other processes may create and remove files during the measurement. Nothing of this job may remain.
  if (looks) HMC_CHECK_EQ(Usage().growth_since(*before, hmc::fault::memory_is_ours), std::string());
  me.runtime->world().barrier();
}

/// Sends a signal around the ring, so that every connection of the ring and the window's memory are used.
void use(TestRank& me, Window& win, int round) {
  const auto value = static_cast<std::uint64_t>(me.rank * 1000 + round);
  win.put_signal(me.next(), 64, &value, 8, 0, 1);
  win.wait_until(0, hmc::Cmp::eq, 1);
  HMC_CHECK_EQ(*win.local<std::uint64_t>(64), static_cast<std::uint64_t>(me.previous() * 1000 + round));
}

}  // namespace

HMC_SPMD_TEST(Leftovers, windows_leak_nothing) {
  expect_flat(me, [&](int round) {
    Window win = Window::create(me.runtime->world(), 3 * 4096);
    use(me, win, round);
    win.close();
  });
}

HMC_SPMD_TEST(Leftovers, windows_over_conn_buffers_leak_nothing) {
  expect_flat(me, [&](int round) {
    const hmc::ConnBuffer buffer(0, 4096, hmc::MemoryType::CPU);
    Window win = Window::create(me.runtime->world(), buffer);
    use(me, win, round);
    win.close();
  });
}
