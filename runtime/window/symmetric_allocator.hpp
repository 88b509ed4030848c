// SymmetricAllocator: offsets inside a window, the same on every rank by making the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace hmc::window {

/// First fit over free ranges that are merged when freed. A pure function of the calls made, so ranks
/// that make the same calls get the same offsets. It never touches the window's memory.
class SymmetricAllocator {
 public:
  explicit SymmetricAllocator(std::uint64_t capacity) {
    if (capacity > 0) free_[0] = capacity;
  }
  /// `align` is a power of two, bytes > 0. Empty when no free range is large enough.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t align);
  /// False if `offset` isn't the start of an allocation.
  bool release(std::uint64_t offset);
  std::uint64_t largest_free() const noexcept;

 private:
  void add_free(std::uint64_t offset, std::uint64_t bytes);
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> used_;  // offset -> bytes
};

}  // namespace hmc::window
