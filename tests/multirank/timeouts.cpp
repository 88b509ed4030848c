// A blocking verb that gives up at the job's deadline: its memory is the caller's at once, and what the peer
// answers later finds nobody. Run with a short HMC_TIMEOUT_S, by two ranks in processes of their own.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Code;
using hmc::Window;
using hmc::spmd::Me;
using hmc::spmd::Pattern;

constexpr std::size_t bytes = std::size_t{1} << 20;
constexpr std::uint64_t signal_at = bytes;
constexpr std::byte guard{0x5a};

void sleep_for(std::chrono::milliseconds span) {
  const timespec time{span.count() / 1000, span.count() % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

/// This process, its progress thread included, does nothing for so long.
void stop_for(std::chrono::milliseconds span) {
  const pid_t myself = ::getpid();
  const pid_t waker = ::fork();
  if (waker == 0) {
    sleep_for(span);
    ::kill(myself, SIGCONT);
    ::_exit(0);
  }
  ::kill(myself, SIGSTOP);
  ::waitpid(waker, nullptr, 0);
}

/// Until the system says that it is stopped, threads and all.
void wait_until_it_stands(std::uint64_t pid) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (std::string stat; stat.find(") T ") == std::string::npos; sleep_for(std::chrono::milliseconds(1))) {
    HMC_CHECK(std::chrono::steady_clock::now() < limit);
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::getline(file, stat);
  }
}

/// Rank 1 stops; rank 0 makes `call`, which must time out, and then `after`, while rank 1 still stands.
void while_rank_1_is_stopped(Me& me, Window& win, const std::function<void()>& call,
                             const std::function<void()>& after) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(me.runtime->timeout());
  if (me.rank == 1) {
    win.put_signal(0, 0, nullptr, 0, signal_at, static_cast<std::uint64_t>(::getpid()));
    win.flush();
    stop_for(limit + std::chrono::milliseconds(1500));
  } else {
    wait_until_it_stands(win.wait_until(signal_at, hmc::Cmp::ne, 0));
    HMC_CHECK_THROWS(Code::timeout, call());
    after();
  }
  me.runtime->world().barrier();
}

bool runs_here(const Me& me) { return me.options.processes && me.size == 2 && !me.runtime->path(1 - me.rank).direct; }

}  // namespace

HMC_SPMD_TEST(timeouts, what_a_get_was_to_fill_stays_as_the_caller_left_it) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  Window win = Window::create(me.runtime->world(), bytes + 64);
  Pattern{me.rank, 1}.fill({win.data(), bytes});
  std::vector<std::byte> got(bytes);
  if (me.rank == 0) win.get(1, 0, got.data(), bytes);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.get(1, 0, got.data(), bytes); }, [&] { std::fill(got.begin(), got.end(), guard); });
  if (me.rank == 0) {
    win.flush(1);  // its answer came after all of the get's
    HMC_CHECK_EQ(std::count(got.begin(), got.end(), guard), static_cast<std::ptrdiff_t>(bytes));
    win.get(1, 0, got.data(), bytes);
    HMC_CHECK_CLEAN((Pattern{1, 1}.verify(got)));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(timeouts, a_batch_of_gets_gives_all_of_its_buffers_back) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  constexpr std::size_t pieces = 100;  // more than are under way at once
  constexpr std::size_t piece = bytes / pieces;
  Window win = Window::create(me.runtime->world(), bytes + 64);
  std::vector<std::byte> got(bytes);
  std::vector<hmc::Get> gets;
  for (std::size_t i = 0; i < pieces; ++i) gets.push_back({i * piece, got.data() + i * piece, piece});
  if (me.rank == 0) win.get_batch(1, gets);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.get_batch(1, gets); }, [&] { std::fill(got.begin(), got.end(), guard); });
  if (me.rank == 0) {
    win.flush(1);
    HMC_CHECK_EQ(std::count(got.begin(), got.end(), guard), static_cast<std::ptrdiff_t>(bytes));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(timeouts, an_atomic_and_a_flush_leave_nothing_behind) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  Window win = Window::create(me.runtime->world(), bytes + 64);
  if (me.rank == 0) win.set<std::uint64_t>(1, 0, 5);
  if (me.rank == 0) win.flush(1);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.fetch_add<std::uint64_t>(1, 0, 1); },
      [&] { HMC_CHECK_THROWS(Code::timeout, win.flush(1, {})); });
  if (me.rank == 0) HMC_CHECK_EQ(win.fetch<std::uint64_t>(1, 0), 6U);
  me.runtime->world().barrier();
  win.close();
}
