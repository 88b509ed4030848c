// Poller: the event loop of one thread over descriptors, timers and wake-ups of other threads.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::base {

/// What to wait for, or what has happened. An error or the other side's end counts as both: the next read or write
/// reports it.
struct Readiness {
  bool read = false;
  bool write = false;
  bool operator==(const Readiness&) const = default;
};

/// The loop is the caller's: it calls wait(), which calls the handlers, and then does what is left of the turn.
/// Handlers may throw; wait() passes it on. Threads: wake() and stop() any, everything else one thread at a time. It
/// has two descriptors.
class Poller {
 public:
  using Handler = std::function<void(Readiness)>;
  class Timer;

  /// Throws Error if no descriptor is left, or if the system refuses epoll.
  Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// Calls `handler` in every turn in which the descriptor is ready, as poll(2) reports it: until the handler has read
  /// all, or wants no more. A file, which is no subject of epoll, is always ready.
  void add(int fd, Readiness wanted, Handler handler);
  /// {}: the handler isn't called.
  void set(int fd, Readiness wanted);
  /// Before the descriptor is closed: a forked process may keep it open, and then epoll would go on reporting it.
  /// Also in its own handler. Does nothing for an unknown descriptor.
  void remove(int fd) noexcept;

  /// One turn: sleeps until a descriptor is ready, a timer is due, another thread calls wake() or stop(), or the time
  /// is over (-1: no limit); at times it returns without any of these. Then it calls the handlers of all ready
  /// descriptors in the order of their add(), and of all timers that are due in the order of their times.
  ///
  /// What another thread stored before wake() is visible after wait(). Data that arrived before wake() is served in the
  /// same turn. False after stop(), or if the program has closed all its descriptors: then every turn takes 10 ms.
  bool wait(int timeout_ms = -1);
  void wake() noexcept;
  /// No later wait() sleeps.
  void stop() noexcept;
  // Acquire pairs with stop()'s release: the thread sees what the other stored before stop().
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

 private:
  struct Watched {
    std::uint32_t number;  ///< in the order of add()
    Readiness wanted;
    bool is_always_ready;
    Handler handler;
  };
  struct Ready {
    std::uint64_t key;
    Readiness readiness;
  };
  using Timers = std::multimap<std::int64_t, Timer*>;

  static std::uint64_t key_of(int fd, const Watched& watched) noexcept;
  void tell_kernel(int fd, Watched& watched, Readiness wanted) noexcept;
  int sleep_ms(int timeout_ms) const noexcept;
  void call(const Ready& ready);
  void call_timers();

  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stopped_{false};
  std::unordered_map<int, Watched> watched_;
  std::uint32_t last_number_ = 0;
  int always_ready_ = 0;
  std::vector<epoll_event> events_;  // reused
  std::vector<Ready> ready_;         // reused
  const Watched* running_ = nullptr;
  std::unordered_map<int, Watched>::node_type removed_;  // of the running handler, until it returns
  Timers timers_;
};

/// Calls its handler once, in a turn of the Poller, when the time is over. Not to be destroyed in its own handler.
class Poller::Timer {
 public:
  Timer(Poller& poller, std::function<void()> handler) : poller_(poller), handler_(std::move(handler)) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// From now; replaces an earlier time.
  void set(std::chrono::nanoseconds span);
  void stop() noexcept;
  bool is_set() const noexcept { return is_set_; }

 private:
  friend class Poller;
  Poller& poller_;
  const std::function<void()> handler_;
  bool is_set_ = false;
  Timers::iterator place_;  // if it is set
};

/// For code without a loop, which has nothing else to wait for: true if the descriptor is ready, also by an error or an
/// end. False when the time is over (-1: no limit), or after a signal.
bool wait_for(int fd, Readiness wanted, int timeout_ms) noexcept;

}  // namespace hmc::base
