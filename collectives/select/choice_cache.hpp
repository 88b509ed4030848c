// ChoiceCache: a team's cache of its Selector's choices.
#pragma once

#include <array>

#include "collectives/select/selector.hpp"

namespace hmc::collectives {

/// Not thread-safe. All calls of one size class share one choice, which is computed once.
class ChoiceCache {
 public:
  ChoiceCache(const Selector& selector, const schedule::Shape& shape, const AreaLimits& limits)
      : selector_(selector), shape_(shape), limits_(limits) {}

  struct CachedChoice {
    Choice choice;
    bool is_new = false;  ///< this is the first user call that gets this choice
  };
  /// `is_users`: the call is the user's, not an internal one.
  CachedChoice get(const schedule::Call& call, std::uint64_t bytes, bool is_users = true) noexcept;
  const AreaLimits& limits() const noexcept { return limits_; }

 private:
  struct CacheEntry {
    std::uint64_t key = 0;  ///< the lowest bit is set in a used entry
    std::uint64_t begin = 0;
    Choice choice;
    bool is_reported = false;  ///< a user call has got this choice before
  };
  static constexpr std::size_t entry_count = 256;

  const Selector& selector_;
  schedule::Shape shape_;
  AreaLimits limits_;
  std::uint64_t version_ = 0;
  std::array<CacheEntry, entry_count> entries_{};
};

}  // namespace hmc::collectives
