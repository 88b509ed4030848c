// Ranks are killed one after another, while the others keep windows and calculate.
//   hmcrun -np N regroup use                     no rank is killed
//   hmcrun -np N --keep-going regroup shrink     until one rank is left
//   hmcrun -np N --respawn K regroup grow        each rank but 0 is replaced once
//   hmcrun -np N --keep-going regroup errors     wrong calls, a grow without replacements, an abort
//   hmcrun -np N --respawn K regroup all_fail    all ranks exit at once
//   hmcrun -np N --respawn K regroup ignored     rank 1 is killed, and nobody calls grow
//   hmcrun -np N --keep-going regroup executed   rank 1 executes the program anew, and nobody calls grow
//   regroup lost_store                           rank 0, which runs the store, is killed: the others can't shrink
//   regroup not_replaced [TEXT]                  rank 1 is killed: grow fails at once with TEXT, or at its timeout
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/check.hpp"

namespace {

using hmc::Code;
using hmc::Error;
using hmc::Runtime;
using hmc::Team;
using hmc::Window;

// Each part: this rank's bytes, those that peers put, and the number of ranks that expect this rank's death.
constexpr std::size_t own_bytes = 100'003, ready_at = 2 * own_bytes + 2, part_bytes = ready_at + 8;

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

std::byte value(int rank, std::size_t offset, int call) {
  return static_cast<std::byte>(
      (static_cast<std::size_t>(rank) * 131 + offset * 7 + offset / 251 + static_cast<std::size_t>(call) * 29) & 0xff);
}

void fill(std::byte* at, int rank, int call) {
  for (std::size_t i = 0; i < own_bytes; ++i) at[i] = value(rank, i, call);
}

void verify(const std::byte* at, int rank, int call, const char* what) {
  for (std::size_t i = 0; i < own_bytes; ++i)
    HMC_CHECK_MSG(at[i] == value(rank, i, call), "{}: byte {} of first rank {}, call {}", what, i, rank, call);
}

/// The victim dies when all others have entered. They return after a call that fails because it has ended.
void lose(Runtime& rt, Window& win, int victim) {
  if (rt.rank() == victim) {
    win.wait_until(ready_at, hmc::Cmp::eq, static_cast<std::uint64_t>(rt.size() - 1));
    die();
  }
  try {
    win.fetch_add<unsigned long>(victim, ready_at, 1UL);
    for (;;) rt.world().barrier();
  } catch (const Error& error) {
    if (error.code() != Code::peer_failed) throw;
  }
}

/// The first rank number of each member: the ranks are numbered anew.
std::vector<int> first_ranks(Runtime& rt, int mine) {
  std::vector<int> all(static_cast<std::size_t>(rt.size()));
  rt.world().allgather(&mine, all.data(), sizeof mine);
  return all;
}

/// Every rank puts its pattern to the next one and sums over all, in the world and in teams of it.
void use(Runtime& rt, Window& win, int mine, int call) {
  const std::vector<int> first = first_ranks(rt, mine);
  const int next = (rt.rank() + 1) % rt.size(), previous = (rt.rank() + rt.size() - 1) % rt.size();
  std::vector<std::byte> bytes(own_bytes);
  fill(bytes.data(), mine, call);
  win.put(next, own_bytes, bytes.data(), own_bytes);
  rt.world().barrier();
  verify(win.data() + own_bytes, first[static_cast<std::size_t>(previous)], call, "put by the previous rank");
  win.get(next, 0, bytes.data(), own_bytes);
  verify(bytes.data(), first[static_cast<std::size_t>(next)], 0, "get of the next rank's own bytes");
  rt.world().barrier();

  Team half = rt.world().split(rt.rank() % 2, 0);
  std::vector<long> in(5000, mine + 1), out(in.size());
  for (Team* const team : {&half, &rt.world()}) {
    team->allreduce(in, out, hmc::sum);
    long expected = 0;
    for (int rank = 0; rank < rt.size(); ++rank)
      if (team == &rt.world() || rank % 2 == rt.rank() % 2) expected += first[static_cast<std::size_t>(rank)] + 1;
    for (const long each : out) HMC_CHECK_EQ(each, expected);
  }
  half.close();
}

void use_once(Runtime& rt) {
  Window win = Window::create(rt.world(), part_bytes);
  fill(win.data(), rt.rank(), 0);
  rt.world().barrier();
  for (int call = 1; call < 4; ++call) use(rt, win, rt.rank(), call);
  win.close();
  rt.close();
}

void shrink(Runtime& rt) {
  const int mine = rt.rank(), size = rt.size();
  Window win = Window::create(rt.world(), part_bytes + 4096);
  const std::uint64_t offset = win.alloc(64);
  fill(win.data(), mine, 0);
  use(rt, win, mine, 1);
  for (int left = size - 1; left >= 1; --left) {
    Team old = rt.world();
    lose(rt, win, left % 2 == 0 ? left : 0);  // the last rank and the first in turn
    Team& world = rt.world();
    Team shrunk = world.shrink();
    HMC_CHECK_EQ(shrunk.size(), left);
    HMC_CHECK_EQ(rt.size(), left);
    HMC_CHECK_EQ(world.rank(), shrunk.rank());
    HMC_CHECK_THROWS(Code::closed, old.shrink());
    HMC_CHECK_THROWS(Code::closed, old.duplicate());
    win.rebind(world);
    verify(win.data(), mine, 0, "own bytes after the loss");
    HMC_CHECK_NE(win.alloc(64), offset);
    use(rt, win, mine, left + 1);
  }
  win.close();
  rt.close();
}

void grow(Runtime& rt) {
  const int mine = rt.rank(), size = rt.size();
  const hmc::ConnBuffer memory(0, part_bytes, hmc::MemoryType::CPU);
  Window win = Window::create(rt.world(), memory);
  int generation = 0;  // number of replaced ranks so far; a replacement gets it from rank 0
  if (rt.is_replacement()) {
    HMC_CHECK_EQ(rt.size(), size);
    fill(win.data(), mine, 0);
  }
  const auto go_on = [&] {
    rt.world().broadcast(&generation, sizeof generation, 0);
    use(rt, win, mine, generation + 1);
  };
  if (!rt.is_replacement()) fill(win.data(), mine, 0);
  go_on();
  while (generation < size - 1) {
    lose(rt, win, generation + 1);
    rt.world().shrink();
    HMC_CHECK_EQ(rt.size(), size - 1);
    rt.world().grow();
    HMC_CHECK_EQ(rt.size(), size);
    HMC_CHECK_EQ(rt.rank(), mine);
    win.rebind(rt.world());
    verify(win.data(), mine, 0, "own bytes after the replacement");
    ++generation;
    go_on();
  }
  win.close();
  rt.close();
}

void errors(Runtime& rt) {
  Team half = rt.world().split(rt.rank() % 2, 0);
  HMC_CHECK_THROWS(Code::invalid_argument, half.shrink());
  HMC_CHECK_THROWS(Code::closed, Team().shrink());
  HMC_CHECK(!rt.is_replacement());
  Window win = Window::create(rt.world(), part_bytes);
  lose(rt, win, 1);
  rt.world().shrink();
  HMC_CHECK_THROWS(Code::closed, half.barrier());
  // hmcrun starts no replacement. The world stays usable.
  try {
    rt.world().grow();
    HMC_CHECK(false);
  } catch (const Error& error) {
    HMC_CHECK_MSG(error.code() == Code::unavailable && std::strstr(error.what(), "without --respawn") != nullptr, "{}",
                  error.what());
  }
  rt.world().barrier();
  // Different calls fail on all ranks.
  if (rt.rank() == 0)
    HMC_CHECK_THROWS(Code::mismatch, rt.world().shrink());
  else
    HMC_CHECK_THROWS(Code::mismatch, rt.world().grow());
  rt.world().shrink();
  rt.world().barrier();
  rt.abort(7, "enough");
  HMC_CHECK_THROWS(Code::aborted, for (;;) rt.world().barrier());
  HMC_CHECK_THROWS(Code::aborted, rt.world().shrink());
  for (;;) ::pause();  // the launcher ends the ranks
}

/// No process is left that holds the job's data. The replacements exit with another status.
void all_fail(Runtime& rt) {
  rt.world().barrier();
  ::_exit(3);
}

/// The others shrink and close the job, and never call grow.
void ignored(Runtime& rt) {
  Window win = Window::create(rt.world(), part_bytes);
  lose(rt, win, 1);
  rt.world().shrink();
  win.rebind(rt.world());
  win.close();
  rt.close();
}

/// Rank 1 executes this program anew, which makes it a replacement. The others don't call grow.
void executed(Runtime& rt, char** argv) {
  std::vector<int> pids(static_cast<std::size_t>(rt.size()));
  const int mine = ::getpid();
  rt.world().allgather(&mine, pids.data(), sizeof mine);
  if (rt.rank() == 1) {
    ::setenv("HMC_TIMEOUT_S", "1", 1);
    ::execv("/proc/self/exe", argv);
  }
  HMC_CHECK_THROWS(Code::peer_failed, for (;;) rt.world().barrier());
  rt.world().shrink();
  while (::kill(pids[1], 0) == 0) ::usleep(1000);
  rt.close();
}

void lost_store(Runtime& rt) {
  Window win = Window::create(rt.world(), part_bytes);
  lose(rt, win, 0);
  HMC_CHECK_THROWS(Code::unavailable, rt.world().shrink());
}

/// `reason`: part of the error's text; null: a process might come, so grow waits.
void not_replaced(Runtime& rt, const char* reason) {
  using std::chrono::milliseconds;
  const milliseconds timeout(reason != nullptr ? 20'000 : 1'000);
  Window win = Window::create(rt.world(), part_bytes);
  lose(rt, win, 1);
  rt.world().shrink();
  const auto start = std::chrono::steady_clock::now();
  try {
    rt.world().grow(timeout);
    HMC_CHECK(false);
  } catch (const Error& error) {
    const auto waited = std::chrono::steady_clock::now() - start;
    HMC_CHECK_MSG(error.code() == (reason != nullptr ? Code::unavailable : Code::timeout), "{}", error.what());
    HMC_CHECK_MSG(std::strstr(error.what(), reason != nullptr ? reason : "rank") != nullptr, "{}", error.what());
    // The deadline counts from the first rank's call.
    HMC_CHECK(reason != nullptr ? waited < timeout / 2 : waited > timeout / 10);
  }
  rt.world().barrier();  // this team stays usable
  win.rebind(rt.world());
  win.close();
  rt.close();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "";
  Runtime rt = Runtime::init();
  if (mode == "use") use_once(rt);
  if (mode == "shrink") shrink(rt);
  if (mode == "grow") grow(rt);
  if (mode == "errors") errors(rt);
  if (mode == "all_fail") all_fail(rt);
  if (mode == "ignored") ignored(rt);
  if (mode == "executed") executed(rt, argv);
  if (mode == "lost_store") lost_store(rt);
  if (mode == "not_replaced") not_replaced(rt, argc > 2 ? argv[2] : nullptr);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
