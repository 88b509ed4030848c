// Signals and atomics on words in device memory.
#include <atomic>
#include <chrono>

#include "tests/multirank/device_names.hpp"

using namespace std::chrono_literals;

HMC_SPMD_TEST(DeviceSignals, signal_is_visible_after_its_bytes) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t bytes = 700, turns = 5;
    Mixed mixed(me, kind, turns * bytes + 16);
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      const auto sent = made({me.rank, round * 100 + turn}, bytes);
      mixed.window.put_signal(me.next(), 16 + turn * bytes, sent.data(), bytes, 8, turn + 1);
      HMC_CHECK_GE(mixed.window.wait_until(8, Cmp::ge, turn + 1), turn + 1);
      HMC_CHECK_CLEAN((Pattern{me.previous(), round * 100 + turn}.verify(mixed.bytes(16 + turn * bytes, bytes))));
    }
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

HMC_SPMD_TEST(DeviceSignals, each_writing_verb_can_signal) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t) {
    Mixed mixed(me, kind, 256);
    hmc::Window& win = mixed.window;
    const int to = me.next();
    const std::uint64_t one = 1, twelve = 12;
    HMC_CHECK_EQ(mixed.buffer.writeFromCpu(&twelve, 8, 88), hmc::status_t::SUCCESS);
    me.runtime->world().barrier();
    win.put_signal(to, 0, nullptr, 0, 0, 1);
    HMC_CHECK_EQ(win.wait_until(0, Cmp::ne, 0), 1U);
    win.put(to, 8, &one, 8);
    HMC_CHECK_EQ(win.wait_until(8, Cmp::eq, 1), 1U);
    win.set<std::uint64_t>(to, 32, 9);
    HMC_CHECK_EQ(win.wait_until(32, Cmp::ge, 9), 9U);
    win.add<std::uint64_t>(to, 40, 2);
    HMC_CHECK_EQ(win.wait_until(40, Cmp::ne, 0), 2U);
    HMC_CHECK_EQ(win.fetch_add<std::uint64_t>(to, 48, 3), 0U);
    HMC_CHECK_EQ(win.wait_until(48, Cmp::ne, 0), 3U);
    HMC_CHECK_EQ(win.swap<std::uint64_t>(to, 56, 4), 0U);
    HMC_CHECK_EQ(win.wait_until(56, Cmp::ne, 0), 4U);
    HMC_CHECK_EQ(win.compare_swap<std::uint64_t>(to, 64, 7, 5), 0U);  // the word isn't 7: unchanged
    HMC_CHECK_EQ(win.compare_swap<std::uint64_t>(to, 64, 0, 5), 0U);
    HMC_CHECK_EQ(win.wait_until(64, Cmp::ne, 0), 5U);
    win.atomic_or<std::uint64_t>(to, 72, 6);
    HMC_CHECK_EQ(win.wait_until(72, Cmp::ne, 0), 6U);
    win.atomic_xor<std::uint64_t>(to, 80, 7);
    HMC_CHECK_EQ(win.wait_until(80, Cmp::ne, 0), 7U);
    win.atomic_and<std::uint64_t>(to, 88, 8);
    HMC_CHECK_EQ(win.wait_until(88, Cmp::ne, 12), 8U);
    HMC_CHECK(win.test_until(88, Cmp::eq, 8));
    HMC_CHECK(!win.test_until(88, Cmp::eq, 9));
    me.runtime->world().barrier();
    win.close();
  });
}

HMC_SPMD_TEST(DeviceSignals, every_rank_gets_another_ticket) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    Mixed mixed(me, kind, 64);
    constexpr std::uint64_t draws = 25;
    std::vector<std::uint64_t> mine;
    for (std::uint64_t i = 0; i < draws; ++i) mine.push_back(mixed.window.fetch_add<std::uint64_t>(0, 8, 1));
    std::vector<std::uint64_t> everyone(static_cast<std::size_t>(me.size) * mine.size());
    me.runtime->world().allgather(mine, everyone);
    std::vector<bool> drawn(everyone.size());
    for (const std::uint64_t ticket : everyone) {
      HMC_CHECK_LT(ticket, drawn.size());
      HMC_CHECK_MSG(!drawn[ticket], "two ranks got ticket {} from {} memory", ticket, kind.name);
      drawn[ticket] = true;
    }
    // Adjacent 32-bit words, with negative values too.
    for (int i = 0; i < 10; ++i) {
      mixed.window.add<std::int32_t>(0, 16, -1);
      mixed.window.add<std::uint32_t>(0, 20, 3);
    }
    mixed.window.flush(0);
    me.runtime->world().barrier();
    HMC_CHECK_EQ(mixed.window.fetch<std::int32_t>(0, 16), -10 * me.size);
    HMC_CHECK_EQ(mixed.window.fetch<std::uint32_t>(0, 20), static_cast<std::uint32_t>(30 * me.size));
    me.runtime->world().barrier();
    mixed.window.close();
  }
}

HMC_SPMD_TEST(DeviceSignals, wait_ends_at_the_deadline) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    Mixed mixed(me, kind, 64);
    HMC_CHECK_THROWS(hmc::Code::timeout, mixed.window.wait_until(16, Cmp::eq, 1, 5ms));
    me.runtime->world().barrier();
    mixed.window.close();
  }
}

// A store by a kernel, without a verb, is seen too.
HMC_SPMD_TEST(DeviceSignals, word_changed_by_the_device_is_seen) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    Mixed mixed(me, kind, 64);
    HMC_CHECK(!mixed.window.test_until(24, Cmp::eq, 77));
    const std::uint64_t word = 77;
    HMC_CHECK_EQ(mixed.buffer.writeFromCpu(&word, 8, 24), hmc::status_t::SUCCESS);
    HMC_CHECK_EQ(mixed.window.wait_until(24, Cmp::eq, 77), 77U);
    me.runtime->world().barrier();
    mixed.window.close();
  }
}
