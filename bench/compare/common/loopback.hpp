// The traffic of loopback, which shows whether data took the network path.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace compare {

/// Bytes received by `lo` since boot, which shows whether data crossed it. 0 if /proc doesn't have it.
inline long long loopback_bytes() {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find("lo:");
    if (at != std::string::npos) return std::atoll(line.c_str() + at + 3);
  }
  return 0;
}

}  // namespace compare
