#include "runtime/base/poller.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.hpp"

namespace hmc::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

UniqueFd ready_descriptor() { return UniqueFd(::eventfd(1, EFD_CLOEXEC)); }

struct Pair {
  UniqueFd near, far;
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    near.reset(ends[0]);
    far.reset(ends[1]);
  }
};

TEST(Poller, calls_the_handlers_of_ready_descriptors_until_they_are_read) {
  Poller poller;
  const Pair quiet, busy;
  int calls = 0;
  poller.add(quiet.near.get(), {.read = true}, [](Readiness) { FAIL() << "nothing was written to it"; });
  poller.add(busy.near.get(), {.read = true}, [&](Readiness ready) {
    EXPECT_TRUE(ready.read);
    EXPECT_FALSE(ready.write);
    char byte = 0;
    if (++calls == 2) {
      EXPECT_EQ(::read(busy.near.get(), &byte, 1), 1);
    }
  });
  ASSERT_EQ(::write(busy.far.get(), "x", 1), 1);
  for (int turn = 0; turn < 4; ++turn) EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(calls, 2);
}

TEST(Poller, serves_all_ready_descriptors_in_one_pass_and_in_the_order_of_add) {
  constexpr int count = 400;
  Poller poller;
  std::vector<UniqueFd> all;
  std::vector<int> served;
  for (int i = 0; i < count; ++i) {
    all.emplace_back(::eventfd(0, EFD_CLOEXEC));
    ASSERT_TRUE(all.back());
  }
  for (int i = count - 1; i >= 0; --i)
    poller.add(all[static_cast<std::size_t>(i)].get(), {.read = true},
               [&served, i](Readiness) { served.push_back(i); });
  for (const UniqueFd& each : all) ASSERT_EQ(::eventfd_write(each.get(), 1), 0);
  poller.wake();
  EXPECT_TRUE(poller.wait());
  ASSERT_EQ(served.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(served[static_cast<std::size_t>(i)], count - 1 - i);
}

TEST(Poller, set_changes_the_wanted_events) {
  Poller poller;
  const Pair pair;
  Readiness seen;
  poller.add(pair.near.get(), {.read = true}, [&](Readiness ready) { seen = ready; });
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(seen, Readiness());
  poller.set(pair.near.get(), {.read = true, .write = true});
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(seen, (Readiness{.write = true}));
}

TEST(Poller, number_that_was_opened_again_is_watched_by_the_next_set) {
  Poller poller;
  const UniqueFd number(::eventfd(0, EFD_CLOEXEC));
  int calls = 0;
  poller.add(number.get(), {.write = true}, [&](Readiness) { ++calls; });
  ASSERT_EQ(::dup3(ready_descriptor().get(), number.get(), O_CLOEXEC), number.get());  // epoll forgets the old one
  poller.set(number.get(), {.read = true});
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(calls, 1);
  std::uint64_t value = 0;
  ASSERT_EQ(::eventfd_read(number.get(), &value), 0);
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(calls, 1);
}

TEST(Poller, end_of_the_other_side_is_reported_only_if_something_is_wanted) {
  Poller poller;
  Pair pair;
  int calls = 0;
  poller.add(pair.near.get(), {}, [&](Readiness ready) {
    ++calls;
    EXPECT_EQ(ready, (Readiness{true, true}));
  });
  pair.far.reset();
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(calls, 0);
  poller.set(pair.near.get(), {.write = true});
  EXPECT_TRUE(poller.wait(0));
  poller.set(pair.near.get(), {});
  EXPECT_TRUE(poller.wait(0));
  EXPECT_EQ(calls, 1);
}

TEST(Poller, handler_may_remove_its_own_descriptor_and_others) {
  Poller poller;
  UniqueFd first = ready_descriptor(), second = ready_descriptor();
  const int number = second.get();
  auto kept = std::make_shared<std::string>(50, 'x');
  const std::weak_ptr<std::string> watch = kept;
  int calls = 0;
  poller.add(first.get(), {.read = true}, [&, data = kept](Readiness) {
    ++calls;
    poller.remove(first.get());
    poller.remove(second.get());
    EXPECT_EQ(data->size(), 50U);  // still valid
    // The same number, for another file: the event of this turn wasn't for it.
    second.reset();
    second = ready_descriptor();
    ASSERT_EQ(second.get(), number);
    poller.add(second.get(), {.read = true}, [&](Readiness) { calls += 100; });
  });
  poller.add(second.get(), {.read = true}, [](Readiness) { FAIL() << "removed before its turn"; });
  kept.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(poller.wait());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(watch.expired());
  EXPECT_TRUE(poller.wait());
  EXPECT_EQ(calls, 101);
}

TEST(Poller, exception_of_a_handler_leaves_wait_and_the_poller_stays_usable) {
  Poller poller;
  const UniqueFd first = ready_descriptor(), second = ready_descriptor();
  int calls = 0;
  poller.add(first.get(), {.read = true}, [&](Readiness) {
    poller.remove(first.get());
    throw std::runtime_error("the handler's");
  });
  poller.add(second.get(), {.read = true}, [&](Readiness) { ++calls; });
  EXPECT_THROW(poller.wait(), std::runtime_error);
  EXPECT_TRUE(poller.wait());
  EXPECT_EQ(calls, 1);
}

TEST(Poller, file_is_always_ready) {
  Poller poller;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd other = ready_descriptor();
  std::string served;
  poller.add(null.get(), {.read = true}, [&](Readiness ready) {
    served += 'n';
    EXPECT_EQ(ready, (Readiness{.read = true}));
    if (served.size() > 2) poller.set(null.get(), {});
  });
  poller.add(other.get(), {.read = true}, [&](Readiness) { served += 'o'; });
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(poller.wait());
  EXPECT_EQ(served, "nonoo");
  poller.set(null.get(), {.read = true});
  EXPECT_TRUE(poller.wait());
  poller.remove(null.get());
  EXPECT_TRUE(poller.wait());
  EXPECT_EQ(served, "nonoonoo");
}

TEST(Poller, timers_run_in_the_order_of_their_times) {
  Poller poller;
  std::string order;
  Poller::Timer b(poller, [&] { order += 'b'; });
  Poller::Timer a(poller, [&] { order += 'a'; });
  Poller::Timer never(poller, [&] { order += 'n'; });
  Poller::Timer stopped(poller, [&] { order += 's'; });
  Poller::Timer again(poller, [&] {
    order += 'r';
    if (order.size() < 4) again.set(milliseconds(1));
  });
  b.set(milliseconds(4));
  a.set(milliseconds(2));
  never.set(std::chrono::nanoseconds::max());
  stopped.set(milliseconds(1));
  stopped.stop();
  again.set(hours(1));
  again.set(milliseconds(6));  // replaces the hour
  EXPECT_TRUE(again.is_set());
  const auto start = Clock::now();
  while (again.is_set()) EXPECT_TRUE(poller.wait());
  EXPECT_EQ(order, "abrr");
  EXPECT_GE(Clock::now() - start, milliseconds(7));
  EXPECT_TRUE(never.is_set());
  EXPECT_FALSE(a.is_set() || b.is_set() || stopped.is_set());
}

TEST(Poller, timer_limits_the_sleep_and_the_timeout_too) {
  Poller poller;
  bool rang = false;
  Poller::Timer timer(poller, [&] { rang = true; });
  const auto start = Clock::now();
  timer.set(hours(1));
  EXPECT_TRUE(poller.wait(20));
  EXPECT_GE(Clock::now() - start, milliseconds(20));
  EXPECT_FALSE(rang);
  {
    const Poller::Timer destroyed(poller, [] { FAIL() << "destroyed before its time"; });
  }
  timer.set({});
  EXPECT_TRUE(poller.wait());
  EXPECT_TRUE(rang);
}

/// The producer's next item comes only after the last one was taken, so a lost wake-up would cost the longest sleep.
TEST(Poller, no_item_of_another_thread_is_lost_between_wake_and_wait) {
  constexpr int items = 2000;
  Poller poller;
  std::atomic<int> posted{0}, taken{0};
  std::thread producer([&] {
    for (int i = 1; i <= items; ++i) {
      posted.store(i);
      poller.wake();
      while (taken.load() != i) std::this_thread::yield();
    }
    poller.stop();
  });
  const auto start = Clock::now();
  while (poller.wait()) taken.store(posted.load());
  producer.join();
  EXPECT_EQ(taken.load(), items);
  EXPECT_LT(Clock::now() - start, milliseconds(longest_poll_ms) * (items / 10));
}

TEST(Poller, data_that_arrived_before_a_wake_up_is_served_in_its_order) {
  Poller poller;
  const std::vector<Pair> pairs(100);
  std::atomic<int> announced{0};
  int served = 0;
  for (const Pair& each : pairs)
    poller.add(each.near.get(), {.read = true}, [&, fd = each.near.get()](Readiness) {
      char byte = 0;
      EXPECT_EQ(::read(fd, &byte, 1), 1);
      ++served;
    });
  std::thread other([&] {
    for (const Pair& each : pairs) {
      EXPECT_EQ(::write(each.far.get(), "x", 1), 1);
      poller.wake();
      ++announced;
    }
  });
  while (served < 100) {
    const int before = announced.load();
    EXPECT_TRUE(poller.wait());
    EXPECT_GE(served, before);
  }
  other.join();
}

TEST(Poller, wait_never_sleeps_after_stop) {
  Poller poller;
  std::thread other([&] { poller.stop(); });
  while (poller.wait()) {
  }
  other.join();
  const auto start = Clock::now();
  for (int turn = 0; turn < 100; ++turn) EXPECT_FALSE(poller.wait());
  EXPECT_TRUE(poller.stopped());
  EXPECT_LT(Clock::now() - start, milliseconds(longest_poll_ms) * 10);
}

/// As a daemon does. Only the child's own table of descriptors changes.
TEST(Poller, wait_reports_that_the_program_has_closed_its_descriptors) {
  const pid_t child = ::fork();
  if (child == 0) {
    Poller poller;
    const UniqueFd ready = ready_descriptor();
    poller.add(ready.get(), {.read = true}, [](Readiness) { ::_exit(2); });
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    bool rang = false;
    Poller::Timer timer(poller, [&] { rang = true; });
    timer.set({});
    ::_exit(!poller.wait() && rang ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(WaitFor, is_true_for_a_ready_descriptor_and_false_when_the_time_is_over) {
  Pair pair;
  EXPECT_FALSE(wait_for(pair.near.get(), {.read = true}, 1));
  EXPECT_TRUE(wait_for(pair.near.get(), {.read = true, .write = true}, 1000));
  pair.far.reset();
  EXPECT_TRUE(wait_for(pair.near.get(), {.read = true}, 1000));
}

}  // namespace
}  // namespace hmc::base
