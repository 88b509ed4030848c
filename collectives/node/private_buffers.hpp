// The method by which peers copy blocks from a large private buffer (in no window): a fixed rule
// (private_buffer_method) or a measurement (MethodTrials).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// - stage: the owner copies the buffer to its staging, and each peer copies its blocks from there.
/// - read (PeerReads): each peer copies its blocks through the kernel. This costs a system call and more time per byte.
/// - try_both: MethodTrials measures both.
enum class PrivateBufferMethod { stage, read, try_both };

/// `block`: the largest number of bytes that one peer copies. Reading is faster in two cases:
/// - it reduces the work of one rank for which all others wait;
/// - all ranks are busy, and one peer reads each byte.
///
/// Measured on two cores, time of reading divided by time of staging:
/// - scatter: 2 ranks, 64 KiB, 1 MiB and 4 MiB: 1.0, 0.75, 0.63; 4 ranks: 0.50, 0.34, 0.34; 8 ranks, 64 KiB and 1 MiB:
///   0.51, 0.17;
/// - alltoall, 4 and 8 ranks: 64 KiB: 1.0 to 1.7;
/// - several ranks read the same bytes (allgather, broadcast): 1.05 to 1.3; one rank reads all (gather): 1.2 to 1.7.
constexpr PrivateBufferMethod private_buffer_method(CollectiveKind collective, int size, std::size_t block) noexcept {
  constexpr std::size_t kib = 1024;
  if (block < 32 * kib) return PrivateBufferMethod::stage;
  switch (collective) {
    case CollectiveKind::scatter:
      return size > 2 || block > 64 * kib ? PrivateBufferMethod::read : PrivateBufferMethod::stage;
    case CollectiveKind::alltoall:
      if (size > 2 && block < 128 * kib) return PrivateBufferMethod::stage;
      // Depends on the cores. 2 ranks: 0.55 to 2; 4 ranks, 128 KiB to 512 KiB: 0.8 to 1.4.
      return PrivateBufferMethod::try_both;
    case CollectiveKind::allgather: return size == 2 ? PrivateBufferMethod::try_both : PrivateBufferMethod::stage;
    default: return PrivateBufferMethod::stage;
  }
}

/// Staging costs two copies and the transfer of cache lines between two cores. Reading a peer's memory costs one copy
/// by the kernel and a system call. The faster method depends on the two cores: with a shared cache, staging takes half
/// the time of reading; otherwise it takes up to twice the time. Ranks may migrate between cores.
///
/// A trial belongs to one size class. It times six calls with the present method, then six with the other. The first
/// trial starts after two calls; the pause between trials grows. The methods don't alternate within a trial, because
/// the time of a call depends on the cache contents that the previous call leaves.
///
/// The other method is selected if the median time of its calls is more than 10 % lower. If the machine is stable, six
/// calls in some thousands use the slower method. Noise doesn't change the selection.
///
/// Rank 0 decides for all. If one rank read and another staged, both would wait for the slower method. The other ranks
/// run their trials at the same call numbers and follow the decision. One thread.
class MethodTrials {
 public:
  struct Trial {
    bool is_new = false;
    bool is_timed = false;  ///< the caller must report the time with record_time()
  };
  /// The decisions, one bit per size class. The peer passes them to follow() before each call.
  std::uint64_t decided() const noexcept { return decided_; }
  void follow(std::uint64_t decided) noexcept {
    follows_ = true;
    decided_ = decided;
  }

  /// The method for a call with blocks of up to `bytes`.
  Trial next(std::size_t bytes) noexcept {
    const std::size_t at = index(bytes);
    Size& size = sizes_[at];
    const std::uint32_t call = size.calls++;
    if (call < size.trial) return {takes_new(at), false};
    const std::uint32_t turn = call - size.trial;
    if (turn < trial_calls) return {(turn >= calls_of_each) != takes_new(at), true};
    conclude(at, call);
    return {takes_new(at), false};
  }
  /// Reports the duration of a timed call, measured from the arrival of the last rank. Stored per byte, because calls
  /// of different sizes share a class.
  void record_time(std::size_t bytes, bool was_new, std::int64_t ns) noexcept {
    Times& times = sizes_[index(bytes)].times[was_new ? 1 : 0];
    if (times.count < times.ns.size()) times.ns[times.count++] = static_cast<double>(ns) / static_cast<double>(bytes);
  }

 private:
  static constexpr std::uint32_t first_trial = 2;  // skips the calls with cold caches
  static constexpr std::uint32_t calls_of_each = 6;
  static constexpr std::uint32_t trial_calls = 2 * calls_of_each;
  static constexpr std::uint32_t least_pause = 64;  // in calls, between trials
  static constexpr std::uint32_t longest_pause = 4096;
  static constexpr double clearly = 0.9;
  static constexpr std::size_t size_count = 64;  // one per power of two
  struct Times {
    std::array<double, calls_of_each> ns{};  // per byte
    std::size_t count = 0;
    /// The lower median; false if there are too few times.
    bool median(double& middle) {
      if (count < calls_of_each) return false;
      std::nth_element(ns.begin(), ns.begin() + calls_of_each / 2 - 1, ns.end());
      middle = ns[calls_of_each / 2 - 1];
      return true;
    }
  };
  struct Size {
    std::uint32_t calls = 0;
    std::uint32_t trial = first_trial;  // number of the call at which the next trial begins
    std::uint32_t pause = least_pause;
    Times times[2];  // of the current trial
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
