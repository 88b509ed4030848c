// Buffers of 64-bit words in a given kind of memory, and each rank's contribution.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace hmc::spmd {

/// Element `index` of a rank's contribution.
inline std::uint64_t element(int rank, std::size_t index, std::uint64_t round) {
  return (static_cast<std::uint64_t>(rank) + 1) * 1000003 + index * 17 + round * 101;
}
inline std::vector<std::uint64_t> mine(int rank, std::size_t count, std::uint64_t round) {
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = element(rank, i, round);
  return all;
}

struct Words {
  Words(MemoryKind kind, std::size_t count)
      : buffer(0, std::max<std::size_t>(count, 1) * 8, kind.type), count_(count) {}
  void write(const std::vector<std::uint64_t>& words, std::size_t at = 0) {
    HMC_CHECK_EQ(buffer.writeFromCpu(words.data(), words.size() * 8, at * 8), status_t::SUCCESS);
  }
  std::vector<std::uint64_t> read() const {
    std::vector<std::uint64_t> words(count_);
    HMC_CHECK_EQ(buffer.readToCpu(words.data(), count_ * 8), status_t::SUCCESS);
    return words;
  }
  std::uint64_t* at(std::size_t index = 0) const { return static_cast<std::uint64_t*>(buffer.ptr) + index; }
  ConnBuffer buffer;
  std::size_t count_;
};

}  // namespace hmc::spmd
