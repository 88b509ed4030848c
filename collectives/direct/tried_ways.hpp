// TriedWays: which of two ways of moving a pair's blocks is quicker here, found by trying both.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hmc::collectives {

/// Staging costs two copies and what lines cost that move between two cores; reading a peer's memory one copy by the
/// kernel, and its call. Which is less depends on the two cores: on those of one cache staging takes half of the time,
/// on others up to twice as long; and ranks move. So of each size both are tried in turns at first, then the quicker
/// one is taken, and the other again once in a while. Threads: one.
class TriedWays {
 public:
  static constexpr std::size_t least = std::size_t{32} << 10;  ///< below it the kernel's call costs more than the copy

  /// For a call with blocks of up to `bytes`: the new way, or the usual one.
  bool takes_new(std::size_t bytes) noexcept {
    if (bytes < least) return false;
    Size& size = sizes_[index(bytes)];
    const std::uint32_t call = size.calls++;
    if (call < 2 * first_tries) return call % 2 != 0;
    const bool better = size.ns[1] < size.ns[0];
    return call % again_after == 0 ? !better : better;
  }
  /// What that call took, from when all were there.
  void took(std::size_t bytes, bool was_new, std::int64_t ns) noexcept {
    if (bytes < least) return;
    double& known = sizes_[index(bytes)].ns[was_new ? 1 : 0];
    // Per byte, as sizes share an entry. What is less counts at once, what is more little by little: it may have been a
    // rank that lost its core.
    const double now = static_cast<double>(ns) / static_cast<double>(bytes);
    known = known == 0 || now < known ? now : known + (std::min(now, 2 * known) - known) / 8;
  }

 private:
  static constexpr std::uint32_t first_tries = 4;   // of each way
  static constexpr std::uint32_t again_after = 64;  // calls: 2 % of the time, where the other takes twice as long
  static constexpr std::size_t size_count = 12;
  static constexpr int least_log = std::bit_width(least);
  struct Size {
    std::uint32_t calls = 0;
    double ns[2] = {0, 0};  // of a byte
  };
  static std::size_t index(std::size_t bytes) noexcept {
    return std::min(size_count - 1, static_cast<std::size_t>(std::bit_width(bytes) - least_log));
  }

  std::array<Size, size_count> sizes_{};
};

}  // namespace hmc::collectives
