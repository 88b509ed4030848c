// Numbers that depend on a position only, so that each rank can compute the data of all ranks.
#pragma once

#include <cstdint>

namespace apps {

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// In [0, 1).
inline double fraction(std::uint64_t position) { return static_cast<double>(mixed(position + 1) >> 11) * 0x1p-53; }

}  // namespace apps
