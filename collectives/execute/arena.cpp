#include "collectives/execute/arena.hpp"

#include <algorithm>

namespace hmc::collectives {

namespace {

constexpr std::uint64_t kib = 1024;

/// About 4 MiB in all areas for a small team, less for each rank of a large one, which are many. On one node every
/// team pays for its pages when it starts, and pieces do best in a core's cache.
std::uint64_t scratch_for(const window::TeamCore& team) noexcept {
  const bool one_node = team.all_direct();
  const auto size = static_cast<std::uint64_t>(team.size());
  return std::clamp<std::uint64_t>(8192 * kib / size / kib * kib, 64 * kib, (one_node ? 64 : 512) * kib);
}

/// Enough for algorithms that cut a message into segments, and for those with a message per rank.
std::uint32_t slots_for(int size) noexcept { return (1024 + 4 * static_cast<std::uint32_t>(size) + 7) / 8 * 8; }

}  // namespace

Arena::Arena(window::TeamCore& team)
    : scratch_bytes_(scratch_for(team)),
      slots_(slots_for(team.size())),
      first_area_((report_offset(team.size()) + 63) / 64 * 64),
      area_bytes_(std::uint64_t{slots_} * 8 + scratch_bytes_) {
  window_ = window::Core::create(team, first_area_ + areas * area_bytes_, window::Core::Role::internal);
}

}  // namespace hmc::collectives
