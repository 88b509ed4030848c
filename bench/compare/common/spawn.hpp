// Starts ranks for contestants without a launcher, as children that don't outlive their parent.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include "setup.hpp"

namespace compare {

/// Forks setup.ranks children, each on its core, that run `body(rank)`. If one fails, the others are killed. Returns
/// the first failure's exit code, or 0.
inline int run_ranks(const Setup& setup, const std::function<int(int)>& body) {
  const int ranks = setup.ranks;
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      int code = 1;
      try {
        bind_rank(setup, rank);
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
