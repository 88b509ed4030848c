// Signals: the verbs that raise one, and the waits for it.
#include <chrono>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/spmd.hpp"

namespace {

using namespace std::chrono_literals;
using hmc::Cmp;
using hmc::Window;
using hmc::spmd::TestRank;
using Clock = std::chrono::steady_clock;

constexpr Cmp all[] = {Cmp::eq, Cmp::ne, Cmp::lt, Cmp::le, Cmp::gt, Cmp::ge};
constexpr std::uint64_t top = ~std::uint64_t{0};

bool holds(std::uint64_t left, Cmp compare, std::uint64_t right) {
  switch (compare) {
    case Cmp::eq: return left == right;
    case Cmp::ne: return left != right;
    case Cmp::lt: return left < right;
    case Cmp::le: return left <= right;
    case Cmp::gt: return left > right;
    case Cmp::ge: return left >= right;
  }
  return false;
}

}  // namespace

HMC_SPMD_TEST(Signals, comparisons_are_unsigned) {
  Window win = Window::create(me.runtime->world(), 64);
  constexpr std::uint64_t values[] = {0, 1, 2, top / 2, top / 2 + 1, top - 1, top};
  for (const std::uint64_t word : values) {
    *win.local<std::uint64_t>(8) = word;
    for (const std::uint64_t value : values) {
      for (const Cmp compare : all) {
        HMC_CHECK_EQ(win.test_until(8, compare, value), holds(word, compare, value));
        if (holds(word, compare, value))
          HMC_CHECK_EQ(win.wait_until(8, compare, value, 0ns), word);
        else if (value == 2)
          HMC_CHECK_THROWS(hmc::Code::timeout, win.wait_until(8, compare, value, 1ms));
      }
    }
  }
  win.close();
}

HMC_SPMD_TEST(Signals, wait_ends_at_the_deadline_and_names_itself) {
  Window win = Window::create(me.runtime->world(), 64);
  const auto start = Clock::now();
  try {
    *win.local<std::uint64_t>(16) = 3;
    win.wait_until(16, Cmp::eq, top, 100ms);
    hmc::spmd::fail_check(__FILE__, __LINE__, "it returned");
  } catch (const hmc::Error& error) {
    HMC_CHECK_EQ(error.code(), hmc::Code::timeout);
    const std::string text = error.what();
    for (const char* part :
         {"wait_until", "timeout", "the deadline passed: waited until the word at offset 16 of window ",
          " is == 18446744073709551615; the last value seen is 3"})
      HMC_CHECK_MSG(text.find(part) != std::string::npos, "no {} in: {}", part, text);
  }
  HMC_CHECK_GE(Clock::now() - start, 100ms);
  HMC_CHECK_LT(Clock::now() - start, 5s);
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Signals, timeout_names_its_window) {
  Window first = Window::create(me.runtime->world(), 64), second = Window::create(me.runtime->world(), 64);
  const auto name_of = [](Window& win) {
    try {
      win.wait_until(8, Cmp::gt, 7, 1ms);
    } catch (const hmc::Error& error) {
      const std::string text = error.what();
      const std::size_t at = text.find("of window ");
      HMC_CHECK_MSG(at != std::string::npos, "no window in: {}", text);
      return text.substr(at, text.find(" is 0, not > 7") - at);
    }
    return std::string();
  };
  HMC_CHECK_NE(name_of(first), "");
  HMC_CHECK_NE(name_of(first), name_of(second));
  me.runtime->world().barrier();
  first.close();
  second.close();
}

HMC_SPMD_TEST(Signals, invalid_comparison_is_rejected) {
  Window win = Window::create(me.runtime->world(), 64);
  for (const int number : {6, 255}) {
    const auto none = static_cast<Cmp>(number);
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, win.wait_until(16, none, 0));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, win.test_until(16, none, 0));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Signals, negative_timeout_is_rejected) {
  hmc::Team& world = me.runtime->world();
  Window win = Window::create(world, 64);
  for (const hmc::Timeout negative : {hmc::Timeout(-2), hmc::Timeout(-1s), hmc::Timeout::min()}) {
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, win.wait_until(16, Cmp::eq, 0, negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, win.flush(negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, win.flush(me.rank, negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, hmc::Request().wait(negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, hmc::Request::wait_all({}, negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, (void)hmc::Request::wait_any({}, negative));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument, world.grow(negative));
  }
  win.wait_until(16, Cmp::eq, 0, hmc::job_timeout);
  world.barrier();
  win.close();
}

// Each rank wakes the next one in a ring, by each verb that writes a word.
HMC_SPMD_TEST(Signals, each_writing_verb_can_signal) {
  Window win = Window::create(me.runtime->world(), 256);
  const int to = me.next();
  [[maybe_unused]] const std::uint64_t one = 1;  // a plain put of a polled word is left out under TSan
  [[maybe_unused]] const std::uint64_t two[2] = {5, 6};
  *win.local<std::uint64_t>(88) = 12;
  me.runtime->world().barrier();
  for (int again = 0; again < 20; ++again) {
    win.put_signal(to, 0, nullptr, 0, 0, 1);
    HMC_CHECK_EQ(win.wait_until(0, Cmp::ne, 0), 1U);
#if !defined(__SANITIZE_THREAD__)  // a put isn't an atomic store: its word may be polled, but TSan reports a race
    win.put(to, 8, &one, 8);
    HMC_CHECK_EQ(win.wait_until(8, Cmp::eq, 1), 1U);
    const hmc::Put puts[] = {{16, &two[0], 8}, {24, &two[1], 8}};
    win.put_batch(to, puts);
    HMC_CHECK_EQ(win.wait_until(16, Cmp::gt, 4), 5U);
    HMC_CHECK_EQ(win.wait_until(24, Cmp::ge, 6), 6U);
#endif
    win.set<std::uint64_t>(to, 32, 9);
    HMC_CHECK_EQ(win.wait_until(32, Cmp::ge, 9), 9U);
    win.add<std::uint64_t>(to, 40, 2);
    HMC_CHECK_EQ(win.wait_until(40, Cmp::ne, 0), 2U);
    HMC_CHECK_EQ(win.fetch_add<std::uint64_t>(to, 48, 3), 0U);
    HMC_CHECK_EQ(win.wait_until(48, Cmp::ne, 0), 3U);
    HMC_CHECK_EQ(win.swap<std::uint64_t>(to, 56, 4), 0U);
    HMC_CHECK_EQ(win.wait_until(56, Cmp::ne, 0), 4U);
    HMC_CHECK_EQ(win.compare_swap<std::uint64_t>(to, 64, 0, 5), 0U);
    HMC_CHECK_EQ(win.wait_until(64, Cmp::ne, 0), 5U);
    win.atomic_or<std::uint64_t>(to, 72, 6);
    HMC_CHECK_EQ(win.wait_until(72, Cmp::ne, 0), 6U);
    win.atomic_xor<std::uint64_t>(to, 80, 7);
    HMC_CHECK_EQ(win.wait_until(80, Cmp::ne, 0), 7U);
    win.atomic_and<std::uint64_t>(to, 88, 8);
    HMC_CHECK_EQ(win.wait_until(88, Cmp::ne, 12), 8U);
    me.runtime->world().barrier();
    for (std::uint64_t offset = 0; offset < 256; offset += 8) *win.local<std::uint64_t>(offset) = offset == 88 ? 12 : 0;
    me.runtime->world().barrier();
  }
  win.close();
}

HMC_SPMD_TEST(Signals, every_rank_gets_another_ticket) {
  Window win = Window::create(me.runtime->world(), 4096);
  constexpr std::uint64_t draws = 200;
  std::vector<std::uint64_t> mine;
  for (std::uint64_t i = 0; i < draws; ++i) mine.push_back(win.fetch_add<std::uint64_t>(0, 0, 1));
  for (std::size_t i = 1; i < mine.size(); ++i) HMC_CHECK_LT(mine[i - 1], mine[i]);
  const auto size = static_cast<std::size_t>(me.size);
  std::vector<std::uint64_t> everyone(size * mine.size());
  me.runtime->world().allgather(mine, everyone);
  std::vector<bool> drawn(everyone.size());
  for (const std::uint64_t ticket : everyone) {
    HMC_CHECK_LT(ticket, drawn.size());
    HMC_CHECK_MSG(!drawn[ticket], "two ranks got ticket {}", ticket);
    drawn[ticket] = true;
  }
  me.runtime->world().barrier();
  win.close();
}

// Adjacent 32-bit atomics in one 64-bit word, negative values, and the owner's own.
HMC_SPMD_TEST(Signals, narrow_atomics_do_not_change_neighbours) {
  Window win = Window::create(me.runtime->world(), 64);
  for (int i = 0; i < 100; ++i) {
    win.add<std::int32_t>(0, 0, -1);
    win.add<std::uint32_t>(0, 4, 3);
    win.add<std::int64_t>(0, 8, -5);
  }
  win.flush(0);
  me.runtime->world().barrier();
  HMC_CHECK_EQ(win.fetch<std::int32_t>(0, 0), -100 * me.size);
  HMC_CHECK_EQ(win.fetch<std::uint32_t>(0, 4), static_cast<std::uint32_t>(300 * me.size));
  HMC_CHECK_EQ(win.fetch<std::int64_t>(0, 8), -500 * static_cast<std::int64_t>(me.size));
  me.runtime->world().barrier();
  win.close();
}

thread_local bool interrupts = false;

HMC_SPMD_TEST(Signals, interrupt_ends_a_wait_and_leaves_the_window_usable) {
  Window win = Window::create(me.runtime->world(), 64);
  if (me.rank == 0) {
    hmc::set_interrupt_check([]() noexcept { return interrupts; });
    interrupts = true;
    HMC_CHECK_THROWS(hmc::Code::timeout, win.wait_until(0, Cmp::ge, 1));
    interrupts = false;
  }
  me.runtime->world().barrier();
  win.set<std::uint64_t>(me.next(), 0, static_cast<std::uint64_t>(me.rank) + 10);
  HMC_CHECK_EQ(win.wait_until(0, Cmp::ge, 1), static_cast<std::uint64_t>(me.previous()) + 10);
  me.runtime->world().barrier();
  if (me.rank == 0) hmc::set_interrupt_check(nullptr);
  win.close();
}

// A lock by compare_swap: its holder changes a counter without atomics.
HMC_SPMD_TEST(Signals, compare_swap_implements_a_lock) {
  Window win = Window::create(me.runtime->world(), 64);
  constexpr int turns = 50;
  for (int turn = 0; turn < turns; ++turn) {
    while (win.compare_swap<std::uint64_t>(0, 0, 0, 1) != 0) {
    }
    std::uint64_t count = 0;
    win.get(0, 8, &count, 8);
    ++count;
    win.put(0, 8, &count, 8);
    win.flush(0);
    HMC_CHECK_EQ(win.swap<std::uint64_t>(0, 0, 0), 1U);
  }
  me.runtime->world().barrier();
  if (me.rank == 0) HMC_CHECK_EQ(*win.local<std::uint64_t>(8), static_cast<std::uint64_t>(turns * me.size));
  me.runtime->world().barrier();
  win.close();
}
