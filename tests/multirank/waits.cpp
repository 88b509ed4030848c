// Ranks that share a core although they don't outnumber the cores, and ranks that sleep because another is late.
#include <fmt/format.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <hmc/hmc.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/rma/team_core.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace hmc {
namespace {

/// Binds the calling thread to one CPU, the same on all ranks if they may use the same CPUs.
class OneCpu {
 public:
  OneCpu() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    std::size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before_)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    HMC_CHECK_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t before_;
};

std::int64_t input_of(int rank, int round, std::size_t index) {
  return 1000003LL * rank + 1009LL * round + static_cast<std::int64_t>(index);
}

void check_allreduce(const spmd::TestRank& me, int round, std::size_t count) {
  std::vector<std::int64_t> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = input_of(me.rank, round, i);
  me.runtime->world().allreduce(in, out, sum);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t expected = 0;
    for (int rank = 0; rank < me.size; ++rank) expected += input_of(rank, round, i);
    HMC_CHECK_EQ(out[i], expected);
  }
}

/// Each rank puts a block to its right neighbour, and waits for its left neighbour's.
void check_neighbours(const spmd::TestRank& me, Window& window, int round) {
  constexpr std::size_t bytes = 3000;
  std::vector<std::byte> block(bytes);
  spmd::Pattern{me.rank, static_cast<std::uint64_t>(round)}.fill(block);
  window.put_signal(me.next(), 0, block.data(), bytes, 4096, static_cast<std::uint64_t>(round));
  window.wait_until(4096, Cmp::ge, static_cast<std::uint64_t>(round));
  HMC_CHECK_CLEAN((spmd::Pattern{me.previous(), static_cast<std::uint64_t>(round)}.verify({window.data(), bytes})));
  me.runtime->world().barrier();  // before the next put
}

HMC_SPMD_TEST(Waits, ranks_bound_to_one_core_exchange_data) {
  Window window = Window::create(me.runtime->world(), 8192);
  {
    const OneCpu bound;
    for (int round = 1; round <= 30; ++round) {
      check_allreduce(me, round, round % 2 == 0 ? 1 : 5000);
      check_neighbours(me, window, round);
      std::uint64_t word = static_cast<std::uint64_t>(round) * 7;
      std::uint64_t other = me.rank == round % me.size ? word : 0;
      me.runtime->world().ibroadcast(&other, sizeof other, round % me.size).wait();
      HMC_CHECK_EQ(other, word);
    }
  }
  window.close();
}

// Longer than the time after which a waiting rank sleeps. Each rank is the late one in turn.
HMC_SPMD_TEST(Waits, late_rank_wakes_sleeping_ranks) {
  Window window = Window::create(me.runtime->world(), 8192);
  for (int round = 1; round <= 2 * me.size; ++round) {
    const bool is_late = me.rank == round % me.size;
    if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    check_allreduce(me, round, 5000);
    if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    check_neighbours(me, window, round);
  }
  window.close();
}

// A sleep ends after a millisecond anyway, so only its delay would show a verb that doesn't ring. Rank 1 looks as if it
// slept. Meanwhile no rank but rank 0 makes a call, which could ring it or change its state.
HMC_SPMD_TEST(Waits, every_store_to_mapped_memory_rings_its_owner) {
  constexpr std::uint64_t word_at = 0, signal_at = 8, ready_at = 16, done_at = 24;
  Window window = Window::create(me.runtime->world(), 64);
  const rma::Fabric& fabric = me.runtime->world().core()->fabric();
  const base::NodePage& page = fabric.waiter.page();
  const auto own_word = [&](std::uint64_t offset) {
    return std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t*>(window.data())[offset / 8]);
  };
  std::vector<std::string> silent;
  if (me.rank == 0 && me.size > 1) {
    window.wait_until(ready_at, Cmp::ge, static_cast<std::uint64_t>(me.size - 1));
    if (me.runtime->path(1).direct) {
      base::Doorbell& door = page.doorbell(fabric.peers[1].local_index);
      const auto rings = [&](const char* verb, auto&& call) {
        page.sleepers().fetch_add(1);
        door.state.store(base::Doorbell::asleep);
        call();
        if (door.state.exchange(base::Doorbell::awake) != base::Doorbell::awake) silent.emplace_back(verb);
        page.sleepers().fetch_sub(1);
      };
      const std::uint64_t word = 7;
      rings("put", [&] { window.put(1, word_at, &word, sizeof word); });
      rings("put_signal", [&] { window.put_signal(1, word_at, &word, sizeof word, signal_at, 1); });
      rings("fetch_add", [&] { (void)window.fetch_add<std::uint64_t>(1, signal_at, 1); });
      rings("add", [&] { window.add<std::uint64_t>(1, signal_at, 1); });
      rings("swap", [&] { (void)window.swap<std::uint64_t>(1, signal_at, 1); });
      rings("compare_swap", [&] { (void)window.compare_swap<std::uint64_t>(1, signal_at, 1, 2); });
    }
    for (int rank = 1; rank < me.size; ++rank) window.put_signal(rank, word_at, nullptr, 0, done_at, 1);
  } else if (me.rank != 0) {
    window.add<std::uint64_t>(0, ready_at, 1);  // the last call
    // Without calls of this rank, its background thread receives rank 0's signal.
    while (own_word(done_at).load() == 0 && page.aborted().ok()) std::this_thread::yield();
  }
  me.runtime->world().barrier();
  window.close();
  HMC_CHECK_MSG(silent.empty(), "these ring nobody: {}", fmt::join(silent, ", "));
}

}  // namespace
}  // namespace hmc
