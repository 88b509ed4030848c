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
/// on others up to twice as long; and ranks move. So of each size a few calls go one way and then as many the other,
/// soon after the first ones and then ever more rarely; only those are timed. Not in turns: what one call leaves in the
/// caches is the next one's. The other way is taken from then on if its calls were
/// clearly quicker, by the median: so a machine that stays as it is loses six calls in thousands, and noise changes
/// nothing.
/// One rank of the pair decides, since one that reads and one that stages would wait for the slower way both; the
/// other tries when it does, by the number of the call, and is told what was decided. Threads: one.
class TriedWays {
 public:
  struct Way {
    bool is_new = false;
    bool is_timed = false;  ///< `took` is to be told
  };
  /// What was decided: a bit per size. Told to the other rank, whose is `follow`ed before each call.
  std::uint64_t decided() const noexcept { return decided_; }
  void follow(std::uint64_t decided) noexcept {
    follows_ = true;
    decided_ = decided;
  }

  /// For a call with blocks of up to `bytes`.
  Way next(std::size_t bytes) noexcept {
    const std::size_t at = index(bytes);
    Size& size = sizes_[at];
    const std::uint32_t call = size.calls++;
    if (call < size.trial) return {takes_new(at), false};
    const std::uint32_t turn = call - size.trial;
    if (turn < trial_calls) return {(turn >= calls_of_each) != takes_new(at), true};
    conclude(at, call);
    return {takes_new(at), false};
  }
  /// What a timed call took, from when all were there. Per byte, as sizes share an entry.
  void took(std::size_t bytes, bool was_new, std::int64_t ns) noexcept {
    Times& times = sizes_[index(bytes)].times[was_new ? 1 : 0];
    if (times.count < times.ns.size()) times.ns[times.count++] = static_cast<double>(ns) / static_cast<double>(bytes);
  }

 private:
  static constexpr std::uint32_t first_trial = 2;  // calls that find everything cold come before it
  static constexpr std::uint32_t calls_of_each = 6;
  static constexpr std::uint32_t trial_calls = 2 * calls_of_each;
  static constexpr std::uint32_t least_pause = 64;  // calls, between trials
  static constexpr std::uint32_t longest_pause = 4096;
  static constexpr double clearly = 0.9;
  static constexpr std::size_t size_count = 64;  // of powers of two
  struct Times {
    std::array<double, calls_of_each> ns{};  // of a byte
    std::size_t count = 0;
    /// The lower of the two in the middle; false: there are too few.
    bool median(double& middle) {
      if (count < calls_of_each) return false;
      std::nth_element(ns.begin(), ns.begin() + calls_of_each / 2 - 1, ns.end());
      middle = ns[calls_of_each / 2 - 1];
      return true;
    }
  };
  struct Size {
    std::uint32_t calls = 0;
    std::uint32_t trial = first_trial;  // the call that the next trial begins with
    std::uint32_t pause = least_pause;
    Times times[2];  // of this trial
  };
  static std::size_t index(std::size_t bytes) noexcept {
    return std::min<std::size_t>(size_count - 1, static_cast<std::size_t>(std::bit_width(bytes)));
  }
  bool takes_new(std::size_t size) const noexcept { return (decided_ >> size & 1) != 0; }
  void conclude(std::size_t at, std::uint32_t call) noexcept {
    Size& size = sizes_[at];
    const bool is_new = takes_new(at);
    double present = 0;
    double other = 0;
    if (!follows_ && size.times[is_new ? 1 : 0].median(present) && size.times[is_new ? 0 : 1].median(other) &&
        other < clearly * present)
      decided_ ^= std::uint64_t{1} << at;
    size.trial = call + size.pause;
    size.pause = std::min(longest_pause, size.pause * 4);
    size.times[0].count = size.times[1].count = 0;
  }

  std::uint64_t decided_ = 0;
  bool follows_ = false;
  std::array<Size, size_count> sizes_{};
};

}  // namespace hmc::collectives
