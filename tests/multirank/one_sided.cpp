// One-sided means one-sided: a target that sleeps doesn't delay the origin.
#include <chrono>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Cmp;
using hmc::Window;
using hmc::spmd::Me;
using hmc::spmd::Pattern;
using Clock = std::chrono::steady_clock;

constexpr std::size_t area = std::size_t{1} << 20;
constexpr std::chrono::milliseconds sleep_time{1500};

struct Layout {
  explicit Layout(int size) : control(static_cast<std::uint64_t>(size) * area), bytes(control + 4096) {}
  std::uint64_t part(int rank) const { return static_cast<std::uint64_t>(rank) * area; }
  std::uint64_t control;  ///< a signal, and the words for atomics
  std::size_t bytes;
};

/// Lets the others begin, and then does nothing at all that HMC could use.
void sleep_outside_of_hmc(Me& me, Window& win, const Layout& layout) {
  for (int peer = 1; peer < me.size; ++peer) win.put_signal(peer, 0, nullptr, 0, layout.control, 1);
  win.flush();
  std::this_thread::sleep_for(sleep_time);
}

}  // namespace

HMC_SPMD_TEST(one_sided, a_target_that_sleeps_delays_nobody) {
  if (me.size < 2) hmc::spmd::skip("it needs a peer");
  const Layout layout(me.size);
  Window win = Window::create(me.runtime->world(), layout.bytes);
  Pattern{me.rank, 1}.fill({win.data() + layout.part(0), area});
  me.runtime->world().barrier();

  if (me.rank == 0) {
    const auto start = Clock::now();
    sleep_outside_of_hmc(me, win, layout);
    HMC_CHECK_LT(Clock::now() - start, sleep_time + std::chrono::seconds(2));
    // Without another call: what they flushed lies here already.
    for (int writer = 1; writer < me.size; ++writer)
      HMC_CHECK_CLEAN((Pattern{writer, 2}.verify({win.data() + layout.part(writer), area})));
    HMC_CHECK_EQ(*win.local<std::uint64_t>(layout.control + 64), static_cast<std::uint64_t>(me.size - 1));
  } else {
    win.wait_until(layout.control, Cmp::eq, 1);
    const auto start = Clock::now();
    std::vector<std::byte> bytes(area);
    for (const std::size_t length : {std::size_t{8}, std::size_t{4096}, area}) {
      win.get(0, 0, bytes.data(), length);
      HMC_CHECK_CLEAN((Pattern{0, 1}.verify({bytes.data(), length})));
    }
    Pattern{me.rank, 2}.fill(bytes);
    win.put(0, layout.part(me.rank), bytes.data(), area);
    win.flush(0);
    win.fetch_add<std::uint64_t>(0, layout.control + 64, 1);
    win.put(0, layout.part(me.rank), bytes.data(), 8);
    win.flush();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    HMC_CHECK_MSG(took.count() < 900, "it took {} ms while the target slept ({})", took.count(),
                  me.runtime->path(0).wire);
  }
  me.runtime->world().barrier();
  win.close();
}

// The other way round: what a sleeping rank put before it slept arrives while it sleeps.
HMC_SPMD_TEST(one_sided, what_was_flushed_before_sleeping_is_there) {
  if (me.size < 2) hmc::spmd::skip("it needs a peer");
  const Layout layout(me.size);
  Window win = Window::create(me.runtime->world(), layout.bytes);
  me.runtime->world().barrier();
  if (me.rank == 0) {
    std::vector<std::byte> bytes(area);
    for (int peer = 1; peer < me.size; ++peer) {
      Pattern{0, static_cast<std::uint64_t>(peer)}.fill(bytes);
      win.put_signal(peer, 0, bytes.data(), area, layout.control, 1);
    }
    win.flush();
    std::this_thread::sleep_for(sleep_time);
  } else {
    const auto start = Clock::now();
    win.wait_until(layout.control, Cmp::eq, 1);
    HMC_CHECK_CLEAN((Pattern{0, static_cast<std::uint64_t>(me.rank)}.verify({win.data(), area})));
    HMC_CHECK_LT(Clock::now() - start, std::chrono::milliseconds(900));
  }
  me.runtime->world().barrier();
  win.close();
}
