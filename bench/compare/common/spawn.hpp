// Starts ranks for the contestants that have no launcher: children of one parent, none of which
// outlives it.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

namespace compare {

/// How many cores this process may use.
inline int cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_COUNT(&allowed);
}

/// This process on the rank-th of the cores that it may use.
inline void pin_to_core_of(int rank) {
  cpu_set_t allowed, one;
  CPU_ZERO(&allowed);
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof allowed, &allowed);
  int nth = rank % CPU_COUNT(&allowed);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || nth-- > 0) continue;
    CPU_SET(cpu, &one);
    break;
  }
  sched_setaffinity(0, sizeof one, &one);
}

/// Forks `ranks` children that run `body(rank)`; when one fails the others are killed. Returns the
/// first failure's exit code, or 0.
inline int run_ranks(int ranks, bool pin, const std::function<int(int)>& body) {
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      if (pin) pin_to_core_of(rank);
      int code = 1;
      try {
        code = body(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::fflush(nullptr);
      _exit(code);
    }
    if (child > 0) children.push_back(child);
  }
  int failed = static_cast<int>(children.size()) == ranks ? 0 : 1;
  for (std::size_t left = children.size(); left > 0; --left) {
    if (failed != 0) {
      for (const pid_t child : children) kill(child, SIGKILL);
    }
    int status = 0;
    if (wait(&status) < 0) break;
    if (failed == 0 && status != 0) failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  return failed;
}

}  // namespace compare
