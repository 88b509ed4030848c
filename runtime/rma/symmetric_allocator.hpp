// SymmetricAllocator: allocates offsets in a window; they are equal on all ranks that make the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace hmc::rma {

/// First fit over free ranges; adjacent free ranges are merged. The result depends only on the sequence of calls, so
/// ranks that make the same calls get the same offsets. It never accesses the window's memory.
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

  // ---- ranks compare these: all allocations so far, including freed ones
  struct Made {
    std::uint64_t offset;
    std::uint64_t bytes;
    friend bool operator==(const Made&, const Made&) = default;
  };
  static constexpr std::size_t first_kept = 1024;
  std::uint64_t made() const noexcept { return made_; }
  std::uint64_t hash() const noexcept { return hash_; }
  /// The first `first_kept` allocations, for error texts: most mismatches occur early.
  const std::vector<Made>& first_made() const noexcept { return first_made_; }

 private:
  void note(const Made& made);
  void add_free(std::uint64_t offset, std::uint64_t bytes);
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> used_;  // offset -> bytes
  std::uint64_t made_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325U;
  std::vector<Made> first_made_;
};

}  // namespace hmc::rma
