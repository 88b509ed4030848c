// CpuSet: a set of CPUs, by operating system number.
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

}  // namespace hmc::topology
