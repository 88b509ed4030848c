// SymmetricAllocator: offsets inside a window, the same on every rank by making the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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

  // ---- what ranks compare: the allocations so far, freed or not
  struct Made {
    std::uint64_t offset;
    std::uint64_t bytes;
    friend bool operator==(const Made&, const Made&) = default;
  };
  static constexpr std::size_t first_kept = 1024;
  std::uint64_t made() const noexcept { return made_; }
  std::uint64_t hash() const noexcept { return hash_; }
  /// The first of them: that many are enough to name a mistake, which mostly comes early.
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

}  // namespace hmc::window
