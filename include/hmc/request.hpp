// Request: a transfer under way.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <hmc/error.hpp>

namespace hmc {

namespace base {
struct Status;
}
namespace window {
class Core;
}

/// Upper bound for a wait. The default, `job_timeout`, is the runtime's (HMC_TIMEOUT_S).
using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout job_timeout{-1};

/// A put_nb, get_nb or non-blocking collective under way. Done means: the source may be reused (put), or the result has
/// arrived (get), or the rank's part in the collective is over. A request is over once test or wait has said so, or has
/// thrown anything but a timeout; then it is empty, as a default-made one is. Small, copyable (of copies, use one), and
/// a destructor that does nothing to the transfer: to drop a request is allowed, its buffers must then stay valid until
/// flush() or until the window has gone. After its window was closed or destroyed a request throws Error{closed}. Same
/// threads as its window.
///
/// A collective goes on while its rank computes: by a thread of the Runtime's, which is made when one is first left
/// under way, sleeps while nothing arrives, leaves the work to callers that wait, and is to be seen nowhere else
/// (HMC_PROGRESS=caller: there is none, and collectives go on in the rank's waits and tests only). So buffers are read
/// and written until the request is over, its team or window was closed or destroyed, or the Runtime was: also while an
/// exception is on its way. What calls a user's function waits for the caller's own waits and tests, since the function
/// is called by no other thread; and so may what is begun on the same team after it.
class HMC_API Request {
 public:
  Request() = default;  ///< an empty one

  /// True once done; false while under way. Never blocks. Throws Error if the transfer failed.
  bool test();
  /// Returns once done; Error{timeout} at the deadline, and the request stays valid: the transfer goes on
  /// and its buffers stay in use. A collective's job_timeout begins anew with each of its steps, so that a large one
  /// may take as long as it moves; when it passes the team has failed, and the error names who is missing. The same
  /// in wait_all and wait_any.
  void wait(Timeout timeout = job_timeout);
  /// Gives the transfer up: the buffers are the caller's again, and what the transfer does may be done in
  /// part. May wait for the network, a second at most; a peer that takes nothing for so long is cut off.
  /// A collective goes on all the same, and its buffers stay in use.
  void abandon() noexcept;

  /// Of several: if one throws anything but a timeout, the others are given up.
  static void wait_all(std::span<Request> requests, Timeout timeout = job_timeout);
  /// The index of one that is done, which is empty from then on, so that each is given once; empty ones are
  /// passed over. `none` if all are empty or `requests` is.
  static std::size_t wait_any(std::span<Request> requests, Timeout timeout = job_timeout);
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// A request as plain bytes, for the C ABI. It may be used until its window is destroyed.
  struct Raw {
    window::Core* window;
    std::uint64_t ticket;
    const char* operation;
    std::int32_t wire;
    std::int32_t peer;
  };
  Raw raw() const noexcept;
  static Request from_raw(const Raw& raw);

 private:
  static void abandon_all(std::span<Request> requests) noexcept;
  static void expire_one(std::span<Request> requests, const base::Status& status);
  friend class window::Core;
  /// Done at once, and not yet asked about.
  Request(const char* operation, int peer) noexcept : operation_(operation), peer_(peer) {}
  Request(std::weak_ptr<window::Core> window, int wire, std::uint64_t ticket, const char* operation, int peer) noexcept
      : window_(std::move(window)), ticket_(ticket), operation_(operation), wire_(wire), peer_(peer) {}
  bool is_empty() const noexcept { return operation_ == nullptr; }
  std::shared_ptr<window::Core> window() const noexcept;
  base::Status look(const window::Core* window) const noexcept;
  void end(const std::shared_ptr<window::Core>& window, const base::Status& status);
  Request take() noexcept;

  std::weak_ptr<window::Core> window_;
  std::uint64_t ticket_ = 0;         // 0: done
  const char* operation_ = nullptr;  // null: empty
  std::int32_t wire_ = 0;
  std::int32_t peer_ = -1;
};

}  // namespace hmc
