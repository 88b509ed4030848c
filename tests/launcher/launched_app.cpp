// launched_app: ranks that any launcher may have started.
//
//   launched_app [SIZE]     joins (twice if the launcher allows it), exchanges data; rank 0 prints "rank R of N by
//                           LAUNCHER". SIZE: the number of ranks that must have joined
//   launched_app SIZE fork  rank 0 forks after the first exchange; the child can't join, and the parent continues
//   launched_app SIZE die   the last rank is killed after the first exchange; the others print "peer R failed"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hmc/hmc.hpp>
#include <string>
#include <vector>

namespace {

std::uint64_t value(int rank, int to, std::size_t i, unsigned round) {
  return static_cast<std::uint64_t>(rank) * 1'000'003 + static_cast<std::uint64_t>(to) * 7'919 + i * 31 + round;
}

bool exchange(hmc::Runtime& runtime, unsigned round) {
  hmc::Team& world = runtime.world();
  const int rank = world.rank(), size = world.size();
  constexpr std::size_t count = 100;
  hmc::Window window = hmc::Window::create(world, static_cast<std::size_t>(size) * count * sizeof(std::uint64_t));
  for (int to = 0; to < size; ++to) {
    std::vector<std::uint64_t> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = value(rank, to, i, round);
    window.put(to, static_cast<std::size_t>(rank) * count * sizeof(std::uint64_t), data.data(), count * sizeof data[0]);
    window.flush(to);
  }
  world.barrier();
  std::vector<std::uint64_t> mine(static_cast<std::size_t>(size) * count);
  std::memcpy(mine.data(), window.data(), mine.size() * sizeof mine[0]);
  for (int from = 0; from < size; ++from)
    for (std::size_t i = 0; i < count; ++i)
      if (mine[static_cast<std::size_t>(from) * count + i] != value(from, rank, i, round)) return false;
  const std::vector<std::uint64_t> one{value(rank, 0, 0, round)};
  std::vector<std::uint64_t> sum(1);
  world.allreduce(one, sum, hmc::sum);
  std::uint64_t expected = 0;
  for (int from = 0; from < size; ++from) expected += value(from, 0, 0, round);
  window.close();
  return sum[0] == expected;
}

/// True if a child of this process gets Error{closed} from Runtime::init.
bool child_is_refused() {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const hmc::Runtime runtime = hmc::Runtime::init();
      ::_exit(1);
    } catch (const hmc::Error& error) {
      ::_exit(error.code() == hmc::Code::closed ? 0 : 2);
    }
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

int run(int expected_size, const std::string& verb) {
  for (unsigned round = 0; round < 2; ++round) {
    hmc::Runtime runtime = hmc::Runtime::init();
    const int rank = runtime.rank(), size = runtime.size();
    if (expected_size > 0 && size != expected_size) {
      std::fprintf(stderr, "%d ranks have joined, not %d\n", size, expected_size);
      return 3;
    }
    if (!exchange(runtime, round)) {
      std::fprintf(stderr, "rank %d: wrong data\n", rank);
      return 4;
    }
    if (verb == "fork" && rank == 0 && !child_is_refused()) return 6;
    if (verb == "die") {
      if (rank == size - 1) std::raise(SIGKILL);
      runtime.world().barrier();
      return 5;
    }
    if (rank == 0 && round == 0) std::printf("rank 0 of %d by %s\n", size, runtime.launcher().c_str());
    const bool again = runtime.launcher() != "hmcrun";
    runtime.close();
    if (!again) break;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 ? std::atoi(words[1]) : 0, count > 2 ? words[2] : "");
  } catch (const hmc::Error& error) {
    if (error.code() == hmc::Code::peer_failed) {
      std::printf("peer %d failed\n", error.peer());
      std::fflush(stdout);
      ::_Exit(9);
    }
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
