// Creating and closing Runtimes: it doesn't grow descriptors, memory or files, and activity lines are up to date.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "job/job_core.hpp"
#include "tests/fault/usage.hpp"

namespace {

using hmc::Runtime;
using hmc::Window;
using hmc::fault::memory_is_ours;
using hmc::fault::Usage;

constexpr int rounds = memory_is_ours ? 1000 : 100;
constexpr int warm_up = 50;  // malloc's arenas, thread stacks, lazy binding

void expect_flat(const Usage& before, const Usage& after) { EXPECT_EQ(after.growth_since(before, memory_is_ours), ""); }

/// Runs `body` on each rank of one job, with ranks as threads.
template <typename Body> void as_ranks(int size, int nodes, Body&& body) {
  auto places = hmc::bootstrap::make_inproc(size, nodes);
  std::vector<std::thread> threads;
  for (auto& place : places) {
    threads.emplace_back([&body, mine = std::move(place)]() mutable {
      Runtime runtime(std::make_unique<hmc::job::JobCore>(std::move(mine), hmc::base::Env::from_process()));
      body(runtime);
      runtime.close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void use_a_window(Runtime& runtime) {
  Window win = Window::create(runtime.world(), 3 * 4096);
  const std::uint64_t value = 7;
  const int to = (runtime.rank() + 1) % runtime.size();
  win.put_signal(to, 64, &value, 8, 0, 1);
  win.wait_until(0, hmc::Cmp::eq, 1);
  win.close();
}

/// Repeats the whole life of a Runtime.
void runtimes_leave_nothing(int size, int nodes, int times) {
  const auto round = [&] {
    as_ranks(size, nodes, [](Runtime& runtime) {
      use_a_window(runtime);
      float value = 1;
      runtime.world().allreduce(&value, &value, 1, hmc::DType::f32, hmc::sum);
      EXPECT_EQ(value, static_cast<float>(runtime.size()));
    });
  };
  for (int i = 0; i < std::min(warm_up, times); ++i) round();
  const Usage before;
  for (int i = 0; i < times; ++i) round();
  expect_flat(before, Usage());
}

TEST(Leftovers, thousand_runtimes_of_two_threads_leak_nothing) { runtimes_leave_nothing(2, 1, rounds); }
TEST(Leftovers, thousand_runtimes_on_two_nodes_leak_nothing) {
  runtimes_leave_nothing(2, 2, memory_is_ours ? 1000 : 20);
}

TEST(Leftovers, thousand_runtimes_of_one_rank_leak_nothing) {
  const auto round = [] {
    Runtime runtime = Runtime::init();
    ASSERT_EQ(runtime.size(), 1);
    use_a_window(runtime);
    runtime.close();
  };
  for (int i = 0; i < warm_up; ++i) round();
  const Usage before;
  for (int i = 0; i < rounds; ++i) round();
  expect_flat(before, Usage());
}

// Destructors are local: they release everything in the process, also without close().
TEST(Leftovers, unclosed_runtimes_and_windows_leak_nothing) {
  const auto round = [] {
    Runtime runtime = Runtime::init();
    Window win = Window::create(runtime.world(), 4096);
    const std::uint64_t value = 1;
    win.put(0, 0, &value, 8);
  };
  for (int i = 0; i < warm_up; ++i) round();
  const Usage before;
  for (int i = 0; i < rounds; ++i) round();
  expect_flat(before, Usage());
}

TEST(ActivityLine, time_outside_of_calls_begins_at_the_end_of_init) {
  auto place = hmc::bootstrap::make_alone();
  const hmc::base::ActivityLine& line = place->node_page().activity(0);
  const std::int64_t before = hmc::base::now_ns();
  Runtime runtime(std::make_unique<hmc::job::JobCore>(std::move(place), hmc::base::Env::from_process()));
  EXPECT_EQ(static_cast<hmc::base::Activity>(line.activity.load()), hmc::base::Activity::computing);
  EXPECT_GE(line.since_ns.load(), before);
  runtime.close();
}

}  // namespace
