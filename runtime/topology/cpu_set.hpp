// CpuSet: a set of CPUs by their number in the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hmc::topology {

/// Grows as needed: machines with more CPUs than a fixed cpu_set_t holds exist. A value; any thread.
class CpuSet {
 public:
  CpuSet() = default;
  static CpuSet of(std::initializer_list<int> cpus);
  /// The CPUs that the calling thread may run on: what a container or a batch system left us.
  static CpuSet of_this_thread();

  void add(int cpu);
  bool contains(int cpu) const noexcept;
  std::size_t count() const noexcept;
  bool empty() const noexcept { return count() == 0; }
  /// As people write it: "0-3,8"; "none" when empty.
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
