// spawn: one child that executes a program, and that can't outlive its parent.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>

#include "runtime/topology/cpu_set.hpp"

namespace hmc::launcher {

/// What hmcrun was given by its parent and changes for itself: the ranks get the original.
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
  int error = 0;               ///< errno of what failed; 0: the program runs
  const char* step = nullptr;  ///< the call that failed, a literal
};

/// The child gets its own process group, so that a signal reaches all that it starts, and is killed
/// by the kernel when the calling thread ends. To be called from a process with one thread: the
/// child shares its memory until it has executed.
SpawnResult spawn(const SpawnRequest& request) noexcept;

}  // namespace hmc::launcher
