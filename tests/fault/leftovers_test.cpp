// What is left behind: descriptors, memory and files stay flat while windows and runtimes come and go.
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "runtime/job/core.hpp"

namespace {

using hmc::Runtime;
using hmc::Window;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_is_ours = false;  // a sanitizer keeps freed memory to itself
constexpr int rounds = 100;
#else
constexpr bool memory_is_ours = true;
constexpr int rounds = 1000;
#endif
constexpr int warm_up = 50;  // malloc's arenas, thread stacks, lazy bindings

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

/// Files that bear our name or UCX's. Others come and go by other programs.
std::set<std::string> files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      if (name.find("hmc") != std::string::npos || name.find("ucx") != std::string::npos) names.insert(entry.path());
    }
  }
  return names;
}

struct Usage {
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");
  std::set<std::string> leftovers = files();
  std::size_t resident = 0;
  std::size_t mappings = 0;

  Usage() {
    std::size_t total = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    resident *= static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++mappings;
  }
};

void expect_flat(const Usage& before, const Usage& after) {
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.leftovers, before.leftovers);
  EXPECT_LE(after.mappings, before.mappings + 8);
  if (memory_is_ours) {
    EXPECT_LE(after.resident, before.resident + (std::size_t{2} << 20)) << "it grew";
  }
}

/// Runs `body` as the ranks of one job, as threads.
template <typename Body> void as_ranks(int size, int nodes, Body&& body) {
  auto places = hmc::bootstrap::make_inproc(size, nodes);
  std::vector<std::thread> threads;
  for (auto& place : places) {
    threads.emplace_back([&body, mine = std::move(place)]() mutable {
      Runtime runtime(hmc::job::make_core(std::move(mine), hmc::base::Env::from_process()));
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

TEST(Leftovers, a_thousand_windows_leave_nothing) {
  as_ranks(2, 1, [](Runtime& runtime) {
    for (int round = 0; round < warm_up; ++round) use_a_window(runtime);
    runtime.world().barrier();
    std::optional<Usage> before;  // one rank looks: to look takes a descriptor
    if (runtime.rank() == 0) before.emplace();
    runtime.world().barrier();
    for (int round = 0; round < rounds; ++round) use_a_window(runtime);
    runtime.world().barrier();
    if (before) expect_flat(*before, Usage());
    runtime.world().barrier();
  });
}

TEST(Leftovers, a_thousand_windows_over_conn_buffers_leave_nothing) {
  as_ranks(2, 1, [](Runtime& runtime) {
    const auto round = [&] {
      const hmc::ConnBuffer buffer(0, 4096, hmc::MemoryType::CPU);
      Window win = Window::create(runtime.world(), buffer);
      win.close();
    };
    for (int i = 0; i < warm_up; ++i) round();
    runtime.world().barrier();
    std::optional<Usage> before;  // one rank looks: to look takes a descriptor
    if (runtime.rank() == 0) before.emplace();
    runtime.world().barrier();
    for (int i = 0; i < rounds; ++i) round();
    runtime.world().barrier();
    if (before) expect_flat(*before, Usage());
    runtime.world().barrier();
  });
}

TEST(Leftovers, windows_between_nodes_leave_nothing) {
  as_ranks(2, 2, [](Runtime& runtime) {
    for (int round = 0; round < warm_up; ++round) use_a_window(runtime);
    runtime.world().barrier();
    std::optional<Usage> before;  // one rank looks: to look takes a descriptor
    if (runtime.rank() == 0) before.emplace();
    runtime.world().barrier();
    for (int round = 0; round < rounds / 4; ++round) use_a_window(runtime);
    runtime.world().barrier();
    if (before) expect_flat(*before, Usage());
    runtime.world().barrier();
  });
}

/// The whole of a Runtime's life again and again.
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

TEST(Leftovers, a_thousand_runtimes_of_two_threads_leave_nothing) { runtimes_leave_nothing(2, 1, rounds); }
TEST(Leftovers, runtimes_on_two_nodes_leave_nothing) { runtimes_leave_nothing(2, 2, memory_is_ours ? 100 : 20); }

TEST(Leftovers, a_thousand_runtimes_alone_leave_nothing) {
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

// Who forgets to close leaves nothing in the process either: destructors are local.
TEST(Leftovers, runtimes_and_windows_that_were_never_closed_leave_nothing) {
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

}  // namespace
