// A size that no machine has free, for tests of allocations that must fail before they take memory.
#pragma once

#include <cstddef>
#include <fstream>
#include <limits>
#include <string>

namespace hmc::test {

/// If the allocation doesn't fail, the kernel ends this process and no other.
inline std::size_t too_much_memory() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::size_t value = 0, total = 0;
  while (file >> word) {
    if ((word == "MemTotal:" || word == "SwapTotal:") && file >> value) total += value * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 2 * total;
}

}  // namespace hmc::test
