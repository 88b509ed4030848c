// spawn: starts a child process that executes a program and can't outlive its parent.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>

#include "runtime/topology/cpu_set.hpp"

namespace hmc::launcher {

/// Inherited settings that hmcrun changes for itself. The ranks get the original values.
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

/// The child gets its own process group, so that a signal reaches all processes that it starts. The kernel kills the
/// child when the calling thread exits. Must be called only in a process with one thread, because the child shares its
/// memory until exec.
SpawnResult spawn(const SpawnRequest& request) noexcept;

}  // namespace hmc::launcher
