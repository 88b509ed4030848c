// SymmetricAllocator: allocates offsets in a window; they are equal on all ranks that make the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <vector>

#include "runtime/rma/team_core.hpp"

namespace hmc::rma {

/// First fit over free ranges; adjacent free ranges are merged. The result depends only on the sequence of calls, so
/// ranks that make the same calls get the same offsets. It never accesses the window's memory. Ranks communicate only
/// in compare().
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

  /// Collective, when the window closes. Returns the error to throw if the ranks' allocations so far, including freed
  /// ones, differ. `team`: null for the world. `window`: the window's id.
  std::exception_ptr compare(const Fabric& fabric, base::Exchange& exchange, const TeamCore* team,
                             std::uint64_t window) const noexcept;

 private:
  /// The result of a call of allocate.
  struct Made {
    std::uint64_t offset;
    std::uint64_t bytes;
    friend bool operator==(const Made&, const Made&) = default;
  };
  static constexpr std::size_t first_kept = 1024;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> used_;  // offset -> bytes
  std::uint64_t made_ = 0;                       // number of allocations so far, including freed ones
  std::uint64_t hash_ = 0xcbf29ce484222325U;     // of all of them
  std::vector<Made> first_made_;                 // for error texts: most mismatches occur early
};

}  // namespace hmc::rma
