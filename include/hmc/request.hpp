// Request: a transfer or a non-blocking collective in flight.
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
namespace rma {
class WindowCore;
}

/// The timeout of a wait. The default, `job_timeout`, means the runtime's deadline (HMC_TIMEOUT_S).
using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout job_timeout{-1};

/// A handle of a put_nb, a get_nb or a non-blocking collective in flight. The operation is complete when:
///  - put_nb: the source may be reused (local completion)
///  - get_nb: the bytes have arrived at the destination
///  - collective: this rank's part is complete, and its buffers may be reused
///
/// A request becomes empty, like a default-constructed one, when test or wait reports completion, or throws any Error
/// except timeout.
///
/// LIFETIME. A request is small and copyable; use only one of the copies. Its destructor neither waits nor cancels. The
/// buffers of a dropped request must stay valid until flush() returns or the window is destroyed. After its window was
/// closed or destroyed, a request throws Error{closed}.
///
/// THREADS. As its window or team: one thread at a time per Runtime.
///
/// PROGRESS OF COLLECTIVES. A collective progresses while its rank computes:
///  - A progress thread of the Runtime does the work. It starts when a collective is first left in flight, sleeps
///    while nothing arrives, and leaves the work to a caller that waits.
///  - HMC_PROGRESS=caller: there is no such thread. Collectives progress in this rank's waits and tests only.
///  - A user-defined reduction is called by the caller's thread only, in its waits and tests. Collectives that are
///    started later on the same team may wait for it.
///  - The buffers stay in use until the request is complete, or its team, window or Runtime is closed or destroyed. An
///    exception that unwinds the caller's stack doesn't end that use.
class HMC_API Request {
 public:
  Request() = default;  ///< an empty one

  /// True if complete; false if in flight. Makes progress, and doesn't wait. Throws Error if the operation failed.
  bool test();
  /// Returns at completion. At the deadline it throws Error{timeout}; then the request stays valid, the operation
  /// continues, and its buffers stay in use.
  ///
  /// job_timeout of a collective restarts with each of its steps, so a large collective may take as long as it
  /// progresses. When it expires, the team has failed and the error names the missing ranks. wait_all and wait_any do
  /// the same.
  void wait(Timeout timeout = job_timeout);
  /// Cancels a transfer: when it returns, HMC no longer accesses the buffers. A part of the bytes may have been
  /// written. May wait for the network, one second at most; a peer that accepts nothing for that long is disconnected.
  /// A collective can't be cancelled: it continues, and its buffers stay in use.
  void abandon() noexcept;

  /// Waits for all. If one throws any Error except timeout, the others are abandoned.
  static void wait_all(std::span<Request> requests, Timeout timeout = job_timeout);
  /// Waits for any one, and returns its index. That request is empty afterwards, so each is returned once. Empty
  /// requests are skipped. Returns `none` if all are empty, or there are none.
  static std::size_t wait_any(std::span<Request> requests, Timeout timeout = job_timeout);
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// A request as plain bytes, for the C ABI. Valid until its window is destroyed.
  struct Raw {
    rma::WindowCore* window;
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
  friend class rma::WindowCore;
  /// Complete already, and not yet reported.
  Request(const char* operation, int peer) noexcept : operation_(operation), peer_(peer) {}
  Request(std::weak_ptr<rma::WindowCore> window, int wire, std::uint64_t ticket, const char* operation,
          int peer) noexcept
      : window_(std::move(window)), ticket_(ticket), operation_(operation), wire_(wire), peer_(peer) {}
  bool is_empty() const noexcept { return operation_ == nullptr; }
  std::shared_ptr<rma::WindowCore> window() const noexcept;
  base::Status look(const rma::WindowCore* window) const noexcept;
  void end(const std::shared_ptr<rma::WindowCore>& window, const base::Status& status);
  Request take() noexcept;

  std::weak_ptr<rma::WindowCore> window_;
  std::uint64_t ticket_ = 0;         // 0: complete
  const char* operation_ = nullptr;  // null: empty
  std::int32_t wire_ = 0;
  std::int32_t peer_ = -1;
};

}  // namespace hmc
