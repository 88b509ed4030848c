// Request: a transfer under way.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <hmc/error.hpp>

namespace hmc {

namespace window {
class Core;
}

/// Upper bound for a wait. The default, `job_timeout`, is the runtime's (HMC_TIMEOUT_S).
using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout job_timeout{-1};

/// A put_nb, get_nb or fetching atomic under way. Done means: the source may be reused (put), or
/// the result has arrived (get). Copyable, small, and a destructor that does nothing: to drop a
/// request is allowed, its buffers must then stay valid until flush(). A request must not outlive
/// its window. Same threads as its window.
class HMC_API Request {
 public:
  Request() = default;  ///< a request that is done

  /// True once done; false while under way. Throws Error if the transfer failed.
  bool test();
  /// Returns once done; Error{timeout} at the deadline, and the request stays valid.
  void wait(Timeout timeout = job_timeout);

  static void wait_all(std::span<Request> requests, Timeout timeout = job_timeout);
  /// The index of one that is done.
  static std::size_t wait_any(std::span<Request> requests, Timeout timeout = job_timeout);

 private:
  friend class window::Core;
  Request(window::Core* window, int wire, std::uint64_t ticket, const char* operation, int peer)
      : window_(window), ticket_(ticket), operation_(operation), wire_(wire), peer_(peer) {}

  window::Core* window_ = nullptr;  // null: done
  std::uint64_t ticket_ = 0;
  const char* operation_ = "";
  int wire_ = 0;
  int peer_ = -1;
};

}  // namespace hmc
