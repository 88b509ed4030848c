// One buffer of one rank: the value of each byte, and its last accesses.
#pragma once

#include <cstdint>
#include <vector>

#include "verify/values.hpp"

namespace hmc::verify {

/// `bytes` bytes of a value, starting at its byte `position`.
struct ValueRun {
  std::uint64_t bytes = 0;
  std::uint64_t position = 0;
  Value value = undefined;
};
using ValueRuns = std::vector<ValueRun>;

/// The accesses that must happen before a remote write to these bytes.
struct LastAccess {
  std::uint32_t locally = 0;  ///< the owner's steps up to the last that read or wrote it
  std::uint32_t arrives = 0;  ///< the owner's steps up to the wait for the last message into it
};

class Storage {
 public:
  explicit Storage(std::uint64_t size = 0, Value value = undefined);

  std::uint64_t size() const { return size_; }
  void read(std::uint64_t begin, std::uint64_t bytes, ValueRuns& out) const;
  /// The latest of all bytes in the range.
  LastAccess touched(std::uint64_t begin, std::uint64_t bytes) const;
  void write(std::uint64_t begin, const ValueRuns& pieces);
  void touch(std::uint64_t begin, std::uint64_t bytes, LastAccess by);

 private:
  struct Fragment {
    std::uint64_t begin = 0;
    std::uint64_t position = 0;
    Value value = undefined;
    LastAccess touched;
  };

  std::size_t find(std::uint64_t offset) const;
  std::uint64_t end_of(std::size_t index) const {
    return index + 1 < fragments_.size() ? fragments_[index + 1].begin : size_;
  }
  /// The fragment that begins at offset; creates it by a split if necessary.
  std::size_t split(std::uint64_t offset);
  void merge(std::size_t first, std::size_t last);

  std::uint64_t size_;
  std::vector<Fragment> fragments_;
};

}  // namespace hmc::verify
