// CpuLayout: the cores and NUMA nodes that this process may use. CpuSet: a set of CPUs, by operating system number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hmc::topology {

/// Grows as needed, since a machine may have more CPUs than a fixed cpu_set_t. A value; any thread.
class CpuSet {
 public:
  CpuSet() = default;
  static CpuSet of(std::initializer_list<int> cpus);
  /// The CPU affinity of the calling thread, as limited by a container or batch system.
  static CpuSet of_this_thread();

  void add(int cpu);
  bool contains(int cpu) const noexcept;
  std::size_t count() const noexcept;
  bool empty() const noexcept { return count() == 0; }
  /// List format: "0-3,8"; "none" if empty.
  std::string text() const;

  /// For sched_setaffinity.
  const std::uint64_t* words() const noexcept { return words_.data(); }
  std::size_t bytes() const noexcept { return words_.size() * sizeof(std::uint64_t); }

  friend CpuSet operator&(const CpuSet& a, const CpuSet& b);
  friend bool operator==(const CpuSet& a, const CpuSet& b) noexcept;

 private:
  std::vector<std::uint64_t> words_;
};

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
