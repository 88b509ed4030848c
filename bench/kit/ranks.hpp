// The CPUs of ranks, and ranks without a launcher: children that don't outlive their parent.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/// The CPUs on which this process may run.
inline std::vector<int> allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Binds this process to CPU `rank` of the list, modulo their number. Without CPUs it stays unbound.
inline void bind_rank(const std::vector<int>& cpus, int rank) {
  if (cpus.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  const int cpu = cpus[static_cast<std::size_t>(rank) % cpus.size()];
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) throw std::runtime_error("can't run on CPU " + std::to_string(cpu));
}

/// Forks `ranks` children, each on its CPU, that run `body(rank)`. If one fails, the others are killed. Returns the
/// first failure's exit code, or 0.
inline int run_ranks(int ranks, const std::vector<int>& cpus, const std::function<int(int)>& body) {
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      int code = 1;
      try {
        bind_rank(cpus, rank);
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

}  // namespace bench
