// Job: what the Python objects of one Runtime share, and the guard of every call.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <hmc/hmc.hpp>

#include "python/src/array.hpp"

namespace hmc::python {

/// An operation in flight whose Python request is gone, or whose buffers may still be in use after a failure.
struct Abandoned {
  hmc::Request request;
  std::vector<Array> arrays;
  bool has_failed = false;  ///< the arrays stay until the job ends
  nb::object result = {};   ///< of the request: a receive may write it
  hmc::Team team = {};      ///< a collective's or message's
};

/// The error ended a receive, whose array isn't in use any more: the message was too long for it. `result`: of the
/// request.
bool is_truncation(const hmc::Error& error, nb::handle result);

/// The Runtime and what its teams, windows and requests share.
///
/// THREADS. HMC takes one thread at a time per Runtime: a call holds the lock. A call that waits gives it up between
/// its polls if another thread wants it (hmc::set_wait_yield), so calls of several threads take turns at their polls;
/// see Among. Destructors of Python objects don't wait for the lock: if another call holds it, that call destroys the
/// object at its end.
class Job {
 public:
  explicit Job(hmc::Runtime runtime) : runtime(std::move(runtime)) {}
  ~Job();

  hmc::Runtime runtime;

  /// Destroys a team or window now or at the end of the call that holds the lock. Needs the GIL.
  template <typename Resource> void retire(Resource resource) {
    if (!is_owner() && mutex_.try_lock()) {
      { [[maybe_unused]] const Resource ended = std::move(resource); }
      mutex_.unlock();
    } else {
      retired_.emplace_back(std::move(resource));
    }
  }
  /// Keeps the buffers of an operation whose request is gone. Needs the GIL.
  void abandon(Abandoned operation) { (operation.has_failed ? failed_ : abandoned_).push_back(std::move(operation)); }
  /// Looks at a few abandoned operations, in turn, and frees the buffers of those that are complete. A call; needs the
  /// GIL.
  void sweep();
  /// After the Runtime was closed: no operation uses a buffer. Needs the GIL.
  void drop_abandoned() noexcept {
    abandoned_.clear();
    failed_.clear();
  }

 private:
  friend class Call;
  bool is_owner() const noexcept { return owner_.load(std::memory_order_relaxed) == pthread_self(); }

  std::timed_mutex mutex_;
  // Threads that wait for the lock, and the number of times that one has taken it. Relaxed: hints, which order no data.
  std::atomic<int> wanting_{0};
  std::atomic<std::uint64_t> entries_{0};
  // With the lock:
  int calls_ = 0;  // begun and not ended; all but one of them have given up the lock
  bool has_collective_ = false;
  // Relaxed: a thread compares it with itself only, and only that thread stores its own id.
  std::atomic<pthread_t> owner_{0};
  std::vector<std::variant<hmc::Team, hmc::Window, hmc::Plan>> retired_;  // accessed with the GIL
  // Accessed with the GIL:
  std::vector<Abandoned> abandoned_;
  std::size_t next_abandoned_ = 0;  // the first that sweep() looks at
  std::vector<Abandoned> failed_;
};

/// The calls of other threads that may be in a wait when a call begins, and that may begin in a wait of the call.
enum class Among : std::uint8_t {
  all,     ///< messages, transfers, requests
  others,  ///< a collective, or a creation: all but a second one
  none,    ///< a close, and what replaces objects
};

/// Holds the job's lock during a call. Created with the GIL, which it releases while it waits for the lock. The wait
/// executes signal handlers, and ends if one raises.
/// A signal handler that a wait executes can't call HMC: Error{in_progress}.
class Call {
 public:
  explicit Call(Job& job, Among among = Among::all);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// While it lives, the call's waits give up the lock. Created and destroyed without the GIL.
  class Waiting {
   public:
    explicit Waiting(Call& call) noexcept;
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };
  bool is_wanted() const noexcept { return job_.wanting_.load(std::memory_order_relaxed) > 0; }
  void let_others_call() noexcept;

 private:
  bool try_to_enter(std::chrono::milliseconds patience);
  Job& job_;
  Among among_;
};

/// Installs the functions of long waits: they execute Python's signal handlers, and give up a job's lock.
void watch_waits();
/// Throws the exception that a signal handler raised in a wait of this thread, such as KeyboardInterrupt.
void throw_if_interrupted();

/// After a failed call: a signal may have ended a system call in it. Its handler's exception replaces the error.
void throw_if_signalled();

/// Calls `function` without the GIL. Python's signal handlers run in its waits.
template <typename Function> auto unlocked(Function&& function) {
  const auto run = [&] {
    const nb::gil_scoped_release released;
    return function();
  };
  try {
    if constexpr (std::is_void_v<decltype(run())>) {
      run();
      throw_if_interrupted();
    } else {
      auto result = run();
      throw_if_interrupted();
      return result;
    }
  } catch (const hmc::Error&) {
    throw_if_signalled();
    throw;
  }
}

/// Calls `function` with the job's lock and without the GIL. For every call that may wait.
template <typename Function> auto blocking(Job& job, Among among, Function&& function) {
  Call call(job, among);
  try {
    return unlocked([&] {
      const Call::Waiting waiting(call);
      return function();
    });
  } catch (const hmc::Error& error) {
    if (error.rank() >= 0) throw;
    ErrorDetail detail = error.detail();
    detail.rank = job.runtime.rank();
    throw hmc::Error(std::move(detail));
  }
}

template <typename Function> auto blocking(Job& job, Function&& function) {
  return blocking(job, Among::all, std::forward<Function>(function));
}

/// Calls `function` with the job's lock and the GIL. For short calls that never wait.
template <typename Function> auto quick(Job& job, Function&& function) {
  const Call call(job);
  return function();
}

/// None: the job's timeout.
inline hmc::Timeout timeout_of(std::optional<double> seconds, const char* operation) {
  if (!seconds) return hmc::job_timeout;
  if (!(*seconds >= 0)) throw hmc::Error(Code::invalid_argument, operation, "the timeout is negative");
  constexpr double most = 9e9;  // beyond it nanoseconds overflow
  return hmc::Timeout(static_cast<std::int64_t>(std::min(*seconds, most) * 1e9));
}

}  // namespace hmc::python
