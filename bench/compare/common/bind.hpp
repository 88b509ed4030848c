// Binding of ranks to the CPUs that the driver gives, the same for every contestant.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "setup.hpp"

namespace compare {

/// Binds this process to CPU `rank` of `setup.cpus`, modulo their number. Without CPUs it stays unbound.
inline void bind_rank(const Setup& setup, int rank) {
  if (setup.cpus.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  const int cpu = setup.cpus[static_cast<std::size_t>(rank) % setup.cpus.size()];
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) throw std::runtime_error("can't run on CPU " + std::to_string(cpu));
}

/// The same for a rank that a launcher has started. Call it before the library starts, so that the library's threads
/// and memory follow the binding.
inline void bind_launched(const Setup& setup) {
  if (setup.cpus.empty()) return;
  for (const char* const name : {"HMC_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name); rank != nullptr) return bind_rank(setup, std::atoi(rank));
  }
  throw std::runtime_error("no launcher has set this process's rank");
}

/// The number of cores for the ranks of this contestant.
inline int cores(const Setup& setup) {
  if (!setup.cpus.empty()) return static_cast<int>(setup.cpus.size());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_COUNT(&allowed);
}

}  // namespace compare
