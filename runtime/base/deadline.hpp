// Deadline: the time at which a wait ends, on the monotonic clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace hmc::base {

using Clock = std::chrono::steady_clock;

inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// A blocking call creates one Deadline and passes it to its nested waits, so all waits share one time limit.
class Deadline {
 public:
  /// A deadline beyond the clock's maximum never expires.
  static Deadline after(std::chrono::nanoseconds span) noexcept {
    const auto now = Clock::now();
    return Deadline(span > Clock::time_point::max() - now ? Clock::time_point::max() : now + span);
  }

  bool expired() const noexcept { return Clock::now() >= at_; }
  std::chrono::nanoseconds left() const noexcept {
    return std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(at_ - Clock::now()));
  }
  /// For poll(2): at least 1 until the deadline, so that a loop over poll doesn't spin.
  int left_ms() const noexcept {
    const auto ns = left().count();
    return ns == 0 ? 0 : static_cast<int>(std::min<std::int64_t>(ns / 1'000'000 + 1, 1'000'000'000));
  }

 private:
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  Clock::time_point at_;
};

/// Throws Error{invalid_argument} if a caller's timeout is negative and isn't job_timeout.
void require_timeout(std::chrono::nanoseconds timeout, std::string_view operation);

}  // namespace hmc::base
