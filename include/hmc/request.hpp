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

class [[nodiscard]] Request;  // not at the definition: the attribute and HMC_API exclude each other

/// The timeout of a wait. The default, `job_timeout`, is HMC_TIMEOUT_S. If that isn't set, a wait has no
/// limit; after HMC_REPORT_S (60) seconds a warning names the missing ranks. Any other negative timeout is
/// Error{invalid_argument}.
using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout job_timeout{-1};

/// A function that ends long waits, for programs that react to signals outside of signal handlers. An interpreter
/// passes a function that executes its handler of Ctrl-C.
///  - It is process-wide. Each thread of the program that waits longer than about 20 ms calls it, every 20 ms.
///  - If it returns true, the wait ends as at its deadline: Error{timeout}. A collective's team has then failed. The
///    function returns true until the program has handled the interrupt.
///  - It must not throw. It must not call functions of a Runtime, team or window of the waiting thread.
using InterruptCheck = bool (*)() noexcept;
/// Sets the function; null: none. Threads: any.
HMC_API void set_interrupt_check(InterruptCheck check) noexcept;

/// For programs whose threads call a Runtime under a lock of their own, such as an interpreter: a long wait calls the
/// functions between its polls. yield() may give up that lock for a moment. Meanwhile other threads may call the
/// Runtime, one at a time, except for:
///  - a collective, or the creation of a team or window, while the waiting call is one too
///  - wait and test of a request that the waiting call uses
///  - shrink, grow, and any close, or the end of an object that the waiting call uses
struct WaitYield {
  bool (*is_wanted)() noexcept;  ///< if it returns true, the wait calls yield(); called very often
  void (*yield)() noexcept;
};
/// Sets the functions; null: none. Process-wide. The struct must stay valid. Threads: any.
HMC_API void set_wait_yield(const WaitYield* yield) noexcept;

/// A handle of a put_nb, a get_nb, a fetching atomic, a message (isend, irecv) or a non-blocking collective in flight.
/// The operation is complete when:
///  - put_nb: the source may be reused (local completion)
///  - get_nb: the bytes have arrived at the destination
///  - fetch_add_nb, swap_nb, compare_swap_nb, fetch_nb: the old value has arrived
///  - isend: its buffer may be reused; irecv: the message has arrived, or has failed the receive
///  - collective: it is complete on this rank, and its buffers may be reused
///
/// A request becomes empty (MPI: MPI_REQUEST_NULL) when test or wait reports completion, or throws any Error except
/// timeout. A default-constructed request is empty.
///
/// LIFETIME. A request is small and move-only. The destructor neither waits for another rank nor cancels. If the
/// operation is in flight, destroying its request, or assigning to it, means:
///  - isend, irecv, collective: the job ends as by Runtime::abort, because the buffers may end with the request. The
///    error names the call, the peer, the tag and the bytes, or the collective, its team and the count. HMC no longer
///    accesses the buffers. abandon() is the way to give up such a request.
///  - put_nb, get_nb and fetching atomics: nothing. Such a request is only a ticket, and flush() completes the
///    operation too. Its buffers must stay valid until flush() returns or the window is destroyed.
/// After its window is closed or destroyed, a request throws Error{closed}.
///
/// THREADS. One thread at a time per Runtime, as for windows and teams.
///
/// PROGRESS OF COLLECTIVES. A collective progresses while its rank computes:
///  - The Runtime's progress thread executes the collective. The thread starts when a call first returns with a
///    collective in flight. It sleeps while no message arrives. If a caller waits, the caller does the work.
///  - HMC_PROGRESS=caller: there is no progress thread. Collectives progress only while this rank waits or tests.
///  - Only the caller's thread calls a user-defined reduction, in its waits and tests. Collectives that start later on
///    the same team may wait for that reduction.
///  - The buffers stay in use until the request is complete, or its team or Runtime is closed or destroyed. If
///    an exception unwinds the caller's stack, it destroys the request: see LIFETIME.
class HMC_API Request {
 public:
  Request() = default;  ///< an empty request
  Request(Request&& other) noexcept
      : window_(std::move(other.window_)),
        ticket_(std::exchange(other.ticket_, 0)),
        operation_(std::exchange(other.operation_, nullptr)),
        wire_(other.wire_),
        peer_(other.peer_) {}
  Request& operator=(Request&& other) noexcept;
  ~Request() {
    if (ticket_ != 0 && wire_ < 0) drop();
  }

  /// Returns true if the operation is complete, false if it is in flight. Makes progress. Doesn't wait. Throws Error if
  /// the operation failed.
  bool test();
  /// Returns at completion. At the deadline it throws Error{timeout}; then the request stays valid, the operation
  /// continues, and its buffers stay in use.
  ///
  /// For a collective, job_timeout restarts at each step, so a collective that makes progress doesn't time out. If
  /// job_timeout expires, the team has failed, the request becomes empty, and the error names the missing ranks. The
  /// same holds for wait_all and wait_any.
  void wait(Timeout timeout = job_timeout);
  /// Cancels a transfer. At return HMC no longer accesses the buffers. Some of the bytes may have been written. The
  /// call may block for up to one second. If a peer accepts no data for one second, HMC disconnects the peer.
  ///
  /// A collective can't be cancelled: it continues, and its buffers stay in use.
  void abandon() noexcept;

  /// Waits for all requests. If one fails with any Error except timeout, the others are abandoned.
  static void wait_all(std::span<Request> requests, Timeout timeout = job_timeout);
  /// Waits until one request completes, and returns its index. That request becomes empty, so each request is returned
  /// once. Empty requests are ignored. Returns `none` if all requests are empty or the span has no elements.
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
  /// Returns the bytes, and makes the request empty. The operation continues; from_raw makes a request of it again.
  Raw release() noexcept;
  static Request from_raw(const Raw& raw);

 private:
  static void abandon_all(std::span<Request> requests) noexcept;
  static void throw_timeout(std::span<Request> requests, const base::Status& status);
  friend class rma::WindowCore;
  /// A request of a complete operation. test or wait still has to report it.
  Request(const char* operation, int peer) noexcept : operation_(operation), peer_(peer) {}
  Request(std::weak_ptr<rma::WindowCore> window, int wire, std::uint64_t ticket, const char* operation,
          int peer) noexcept
      : window_(std::move(window)), ticket_(ticket), operation_(operation), wire_(wire), peer_(peer) {}
  bool is_empty() const noexcept { return operation_ == nullptr; }
  std::shared_ptr<rma::WindowCore> window() const noexcept;
  base::Status look(const rma::WindowCore* window) const noexcept;
  void end(const std::shared_ptr<rma::WindowCore>& window, const base::Status& status);
  void drop() noexcept;

  std::weak_ptr<rma::WindowCore> window_;
  std::uint64_t ticket_ = 0;         // 0: complete
  const char* operation_ = nullptr;  // null: empty
  std::int32_t wire_ = 0;            // negative: of messages, collectives and devices
  std::int32_t peer_ = -1;
};

}  // namespace hmc
