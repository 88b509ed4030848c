// Contributions to sums, and the check of the result.
#pragma once

#include <cstring>
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace hmc::spmd {

/// Sums of these values are exact in every tested type.
template <typename T> T element(int rank, std::size_t index, int round) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 7 + index * 3 + static_cast<std::size_t>(round)) % 13);
}
template <typename T> std::vector<std::byte> contribution(int rank, std::size_t count, int round) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = element<T>(rank, i, round);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}
template <typename T> void check_sums(const std::vector<std::byte>& got, int size, int round) {
  for (std::size_t i = 0; i < got.size() / sizeof(T); ++i) {
    T value, sum{};
    std::memcpy(&value, got.data() + i * sizeof(T), sizeof value);
    for (int rank = 0; rank < size; ++rank) sum = static_cast<T>(sum + element<T>(rank, i, round));
    HMC_CHECK_MSG(value == sum, "element {} is {}, not {}", i, value, sum);
  }
}

}  // namespace hmc::spmd
