// spawn: starts a child that executes a program and can't outlive its parent.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>

#include "runtime/topology/cpu_set.hpp"

namespace hmc::launcher {

/// Settings that hmcrun inherited and changes for itself. The ranks get the original ones.
struct Inherited {
  sigset_t signal_mask;
  rlimit descriptors;
  static Inherited now() noexcept;
};

struct SpawnRequest {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int in = -1, out = -1, err = -1;         ///< -1: inherited
  const topology::CpuSet* cpus = nullptr;  ///< null or empty: not bound
  const Inherited* inherited = nullptr;
};

struct SpawnResult {
  pid_t pid = -1;
  int error = 0;               ///< errno of the failed call; 0: the program runs
  const char* step = nullptr;  ///< the call that failed, a literal
};

/// The child gets its own process group, so that a signal reaches all processes that it starts. The kernel kills it
/// when the calling thread ends. Call it only from a process with one thread: until exec, the child shares its memory.
SpawnResult spawn(const SpawnRequest& request) noexcept;

}  // namespace hmc::launcher
