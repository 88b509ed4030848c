// CpuLayout: the cores and NUMA nodes that this process may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/topology/cpu_set.hpp"

namespace hmc::topology {

struct CpuCore {
  int index = 0;      ///< 0.., in hwloc's logical order: neighbours are close on the machine
  int numa_node = 0;  ///< position in CpuLayout::numa_nodes
  CpuSet cpus;        ///< its hardware threads
};

struct NumaNode {
  int os_index = 0;
  std::uint64_t memory_bytes = 0;
  CpuSet cpus;
};

/// Contains only the CPUs in the calling thread's affinity. A value; any thread.
struct CpuLayout {
  std::string model;  ///< the CPU's name; may be empty
  CpuSet allowed;
  std::vector<CpuCore> cores;        ///< at least one
  std::vector<NumaNode> numa_nodes;  ///< at least one
};

/// Queries hwloc, which takes about 10 ms. A normal start doesn't call it. Throws hmc::Error.
CpuLayout load_cpu_layout();

/// For output: "core 3 (cpus 3,67)", "NUMA node 1 (cpus 8-15)", "cpus 0-3".
std::string describe(const CpuLayout& layout, const CpuSet& cpus);

}  // namespace hmc::topology
