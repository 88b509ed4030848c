#include "runtime/base/wait.hpp"

#include <gtest/gtest.h>

#include <sched.h>

#include <ctime>
#include <optional>
#include <thread>
#include <vector>

namespace hmc::base {
namespace {

using namespace std::chrono_literals;

std::int64_t cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// All modes have the same contract.
class Wait : public testing::TestWithParam<WaitMode> {
 protected:
  NodePage page_ = NodePage::create(4);
  Waiter waiter(int index) const { return Waiter(page_, index, GetParam()); }
};

TEST_P(Wait, ready_condition_returns_at_once) {
  Waiter mine = waiter(0);
  int looks = 0;
  EXPECT_TRUE(mine.until(
                      {}, [&]() noexcept { return ++looks > 0; }, 0ns)
                  .ok());
  EXPECT_EQ(looks, 1);
}

TEST_P(Wait, deadline_ends_the_wait_and_names_the_peer) {
  Waiter mine = waiter(0);
  const auto start = Clock::now();
  const Status status = mine.until(
      {Activity::flush, 3}, []() noexcept { return false; }, 50ms);
  EXPECT_EQ(status.code, Code::timeout);
  EXPECT_EQ(status.peer, 3);
  EXPECT_GE(Clock::now() - start, 50ms);
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST_P(Wait, time_in_which_the_process_was_stopped_does_not_count) {
  Waiter mine = waiter(0);
  const Clock::time_point begin = Clock::now();
  Clock::time_point continued{};
  const auto ready = [&]() noexcept {
    const Clock::time_point now = Clock::now();
    if (continued == Clock::time_point{} && now - begin > 100ms) {
      std::this_thread::sleep_for(2500ms);
      continued = Clock::now();
      return false;
    }
    return continued != Clock::time_point{} && now - continued > 50ms;
  };
  EXPECT_TRUE(mine.until({}, ready, 2s).ok());
}

TEST_P(Wait, long_wait_is_reported_at_growing_intervals) {
  Waiter mine = waiter(0);
  std::vector<std::chrono::nanoseconds> reports;
  mine.report_after(10ms, [&](const WaitNote& note, std::chrono::nanoseconds waited) {
    EXPECT_EQ(note.activity, Activity::flush);
    EXPECT_EQ(note.peer, 3);
    reports.push_back(waited);
  });
  EXPECT_EQ(mine.until(
                    {Activity::flush, 3}, [&]() noexcept { return reports.size() == 3; }, 60s)
                .code,
            Code::success);
  ASSERT_EQ(reports.size(), 3U);
  for (std::size_t i = 0; i < reports.size(); ++i) EXPECT_GE(reports[i], 10ms * (1 << i));
}

TEST_P(Wait, one_rank_of_the_node_reports) {
  EXPECT_TRUE(page_.claim_report(1000, 500));
  EXPECT_FALSE(page_.claim_report(1100, 500));
  EXPECT_FALSE(page_.claim_report(1249, 500));
  EXPECT_TRUE(page_.claim_report(1251, 500));
}

TEST_P(Wait, infinite_timeout_does_not_overflow) {
  Waiter mine = waiter(0);
  int looks = 0;
  EXPECT_TRUE(mine.until(
                      {}, [&]() noexcept { return ++looks > 10'000; }, std::chrono::nanoseconds::max())
                  .ok());
}

TEST_P(Wait, ranks_that_ring_alternate) {
  constexpr std::uint64_t rounds = 5'000;
  std::atomic<std::uint64_t> words[2] = {0, 0};
  const auto side = [&](int me) {
    Waiter mine = waiter(me);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (me == 0) {
        words[0].store(round, std::memory_order_release);
        mine.ring(1);
      }
      const auto there = [&]() noexcept { return words[1 - me].load(std::memory_order_acquire) >= round; };
      ASSERT_TRUE(mine.until({}, there, 30s).ok());
      if (me == 1) {
        words[1].store(round, std::memory_order_release);
        mine.ring(0);
      }
    }
  };
  std::thread other(side, 1);
  side(0);
  other.join();
}

/// That no ring is lost between the sleeper's last poll and its sleep is proved in tests/models/doorbell.pml.
TEST_P(Wait, ring_ends_the_sleep) {
  if (GetParam() == WaitMode::spin) GTEST_SKIP() << "it doesn't sleep";
  Doorbell& door = page_.doorbell(1);
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> stored{false};
    std::thread sleeper([&] {
      Waiter mine = waiter(1);
      EXPECT_TRUE(mine.until(
                          {}, [&]() noexcept { return stored.load(std::memory_order_acquire); }, 60s)
                      .ok());
    });
    while (door.state.load() != Doorbell::asleep || page_.sleepers().load() != 1U) std::this_thread::yield();
    stored.store(true, std::memory_order_release);
    waiter(0).ring(1);
    sleeper.join();
    EXPECT_EQ(door.state.load(), Doorbell::awake);
    EXPECT_EQ(page_.sleepers().load(), 0U);
  }
}

TEST_P(Wait, store_without_a_doorbell_is_seen) {
  std::atomic<bool> stored{false};
  std::thread writer([&] {
    std::this_thread::sleep_for(30ms);
    stored.store(true, std::memory_order_release);
  });
  Waiter mine = waiter(0);
  const auto start = Clock::now();
  EXPECT_TRUE(mine.until(
                      {}, [&]() noexcept { return stored.load(std::memory_order_acquire); }, 30s)
                  .ok());
  EXPECT_LT(Clock::now() - start, 5s);
  writer.join();
}

TEST_P(Wait, abort_ends_every_wait_with_its_cause) {
  std::vector<std::thread> waiters;
  std::atomic<int> ended{0};
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      Waiter mine = waiter(i);
      const Status status = mine.until(
          {}, []() noexcept { return false; }, 60s);
      EXPECT_EQ(status.code, Code::peer_failed);
      EXPECT_EQ(status.peer, 3);
      ++ended;
    });
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(ended.load(), 0);
  const auto start = Clock::now();
  page_.raise_abort(Code::peer_failed, 3, "rank 3 is gone");
  for (std::thread& thread : waiters) thread.join();
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST_P(Wait, ready_condition_wins_over_an_abort) {
  page_.raise_abort(Code::aborted, 0, "over");
  Waiter mine = waiter(1);
  EXPECT_TRUE(mine.until(
                      {}, []() noexcept { return true; }, 1s)
                  .ok());
}

TEST_P(Wait, long_wait_is_reported_and_withdrawn) {
  std::atomic<bool> go{false};
  std::thread other([&] {
    Waiter theirs = waiter(1);
    EXPECT_TRUE(theirs
                    .until(
                        {activity_of(CollectiveKind::barrier), 2, 77}, [&]() noexcept { return go.load(); }, 60s)
                    .ok());
  });
  const ActivityLine& line = page_.activity(1);
  const auto deadline = Clock::now() + 30s;
  while (line.activity.load() != static_cast<std::uint32_t>(activity_of(CollectiveKind::barrier)) &&
         Clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(line.peer.load(), 2);
  EXPECT_EQ(line.sequence.load(), 77U);
  EXPECT_LE(line.since_ns.load(), now_ns());
  go = true;
  waiter(0).ring(1);
  other.join();
  EXPECT_EQ(line.activity.load(), static_cast<std::uint32_t>(Activity::computing));
}

TEST_P(Wait, rank_that_starts_is_in_its_waits_and_then_starts_again) {
  ActivityLine& line = page_.activity(1);
  const auto activity = [&] { return static_cast<Activity>(line.activity.load()); };
  line.activity.store(static_cast<std::uint32_t>(Activity::starting));
  {
    const ActivityScope call(line, {Activity::setup});
    EXPECT_EQ(activity(), Activity::setup);
  }
  EXPECT_EQ(activity(), Activity::starting);
}

TEST_P(Wait, nested_wait_keeps_the_name_of_the_call) {
  const ActivityLine& line = page_.activity(1);
  const auto activity = [&] { return static_cast<Activity>(line.activity.load()); };
  {
    const ActivityScope call(page_.activity(1), {activity_of(CollectiveKind::barrier), 5, 3});
    const auto since = line.since_ns.load();
    bool ready = false;
    EXPECT_EQ(waiter(1)
                  .until(
                      {Activity::wait_request, 2, 9},
                      [&]() noexcept {
                        if (line.peer.load() == 2) {  // the inner wait has published its peer
                          EXPECT_EQ(activity(), activity_of(CollectiveKind::barrier));
                          EXPECT_EQ(line.since_ns.load(), since);
                          ready = true;
                        }
                        return ready;
                      },
                      60s)
                  .code,
              Code::success);
    EXPECT_EQ(activity(), activity_of(CollectiveKind::barrier));
    EXPECT_EQ(line.peer.load(), 5);
    EXPECT_EQ(line.sequence.load(), 3U);
  }
  EXPECT_EQ(activity(), Activity::computing);
}

TEST_P(Wait, wires_progress_during_the_wait) {
  struct Counting final : Progress {
    int calls = 0;
    int progress() noexcept override {
      ++calls;
      return 0;
    }
  } wire;
  Waiter mine = waiter(0);
  mine.add_progress(&wire);
  EXPECT_TRUE(mine.until(
                      {}, [&]() noexcept { return wire.calls >= 5; }, 30s)
                  .ok());
  mine.remove_progress(&wire);
  const int before = wire.calls;
  EXPECT_EQ(mine.until(
                    {}, []() noexcept { return false; }, 20ms)
                .code,
            Code::timeout);
  EXPECT_EQ(wire.calls, before);
}

/// Binds the calling thread to one of its CPUs.
class OneCpu {
 public:
  OneCpu() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    while (!CPU_ISSET(cpu_, &before_)) ++cpu_;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) ADD_FAILURE() << "the thread can't be bound";
  }
  ~OneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;
  int cpu() const { return cpu_; }

 private:
  int cpu_ = 0;
  cpu_set_t before_;
};

/// A ring of ranks of all modes: each waits for its left neighbour's word, then stores its own. Sometimes a rank is so
/// late that the others sleep.
void run_mixed_ring(int ranks, bool on_one_cpu) {
  const NodePage page = NodePage::create(ranks);
  std::vector<std::atomic<std::uint64_t>> words(static_cast<std::size_t>(ranks));
  constexpr WaitMode modes[] = {WaitMode::adapt, WaitMode::sleep, WaitMode::spin};
  constexpr std::uint64_t rounds = 60;
  const auto rank = [&](int me) {
    std::optional<OneCpu> bound;
    if (on_one_cpu) bound.emplace();
    Waiter mine(page, me, modes[me % 3]);
    const auto left = static_cast<std::size_t>((me + ranks - 1) % ranks);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      const std::uint64_t awaited = me == 0 ? round - 1 : round;
      const auto there = [&]() noexcept { return words[left].load(std::memory_order_acquire) >= awaited; };
      ASSERT_TRUE(mine.until({}, there, 60s).ok()) << "rank " << me << ", round " << round;
      if (round % 10 == 0 && round / 10 % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(me))
        std::this_thread::sleep_for(20ms);
      words[static_cast<std::size_t>(me)].store(round, std::memory_order_release);
      mine.ring((me + 1) % ranks);
    }
  };
  std::vector<std::thread> threads;
  for (int me = 1; me < ranks; ++me) threads.emplace_back(rank, me);
  rank(0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(page.sleepers().load(), 0U);
}

TEST(MixedModes, each_rank_of_a_ring_is_woken) {
  for (const int ranks : {2, 3, 4, 5, 8}) run_mixed_ring(ranks, false);
}

TEST(MixedModes, ranks_on_one_cpu_make_progress) {
  for (const int ranks : {2, 3, 4, 5, 8}) run_mixed_ring(ranks, true);
}

/// A wait of this length looks at the other ranks' CPUs.
void wait_for_some_polls(Waiter& waiter) {
  int looks = 0;
  EXPECT_TRUE(waiter
                  .until(
                      {}, [&]() noexcept { return ++looks > 200; }, 60s)
                  .ok());
}

TEST(SharedCore, rank_on_the_same_cpu_is_detected) {
  const OneCpu bound;
  const NodePage page = NodePage::create(3);
  Waiter mine(page, 1, WaitMode::adapt);
  wait_for_some_polls(mine);
  EXPECT_EQ(page.cpus()[1].load(), bound.cpu() + 1);
  EXPECT_FALSE(mine.shares_core());
  page.cpus()[2].store(static_cast<std::uint16_t>(bound.cpu() + 1));
  wait_for_some_polls(mine);
  EXPECT_TRUE(mine.shares_core());
  page.cpus()[2].store(static_cast<std::uint16_t>(bound.cpu() + 2));
  wait_for_some_polls(mine);
  EXPECT_FALSE(mine.shares_core());
}

TEST(SharedCore, rank_moves_to_a_cpu_without_ranks) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) == 1) GTEST_SKIP() << "this process may use one CPU";
  const NodePage page = NodePage::create(2);
  Waiter mine(page, 1, WaitMode::adapt);
  const auto limit = Clock::now() + 60s;
  // The other rank follows. A scheduler rarely moves the only thread of a process.
  for (int moves = 0; moves < 20 && Clock::now() < limit;) {
    const int cpu = ::sched_getcpu();
    page.cpus()[0].store(static_cast<std::uint16_t>(cpu + 1));
    while (::sched_getcpu() == cpu && Clock::now() < limit) wait_for_some_polls(mine);
    if (::sched_getcpu() != cpu) ++moves;
  }
  EXPECT_LT(Clock::now(), limit) << "it shares the core";
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(SharedCore, spinning_rank_ignores_other_ranks) {
  const OneCpu bound;
  const NodePage page = NodePage::create(2);
  page.cpus()[0].store(static_cast<std::uint16_t>(bound.cpu() + 1));
  Waiter mine(page, 1, WaitMode::spin);
  wait_for_some_polls(mine);
  EXPECT_FALSE(mine.shares_core());
  EXPECT_EQ(page.cpus()[1].load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, Wait, testing::Values(WaitMode::adapt, WaitMode::spin, WaitMode::sleep),
                         [](const auto& mode) {
                           return std::string(mode.param == WaitMode::adapt  ? "adapting"
                                              : mode.param == WaitMode::spin ? "spinning"
                                                                             : "sleeping");
                         });

// As if each yield took a time slice of another program.
TEST(SleepingWaiter, slow_polls_do_not_delay_the_deadline) {
  const NodePage page = NodePage::create(1);
  Waiter mine(page, 0, WaitMode::sleep);
  int looks = 0;
  const auto look = [&]() noexcept {
    std::this_thread::sleep_for(10ms);
    return ++looks > 1000;
  };
  EXPECT_EQ(mine.until({}, look, 20ms).code, Code::timeout);
  EXPECT_LT(looks, 20);
}

TEST(SleepingWaiter, long_wait_frees_the_core) {
  for (const WaitMode mode : {WaitMode::adapt, WaitMode::sleep}) {
    const NodePage page = NodePage::create(1);
    Waiter mine(page, 0, mode);
    const std::int64_t before = cpu_ns();
    EXPECT_EQ(mine.until(
                      {}, []() noexcept { return false; }, 300ms)
                  .code,
              Code::timeout);
    EXPECT_LT(cpu_ns() - before, 150'000'000) << "it used more than half of a core while it slept";
  }
}

}  // namespace
}  // namespace hmc::base
