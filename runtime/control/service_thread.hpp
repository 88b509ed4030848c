// service_thread: a thread of the library in the user's process. Completion: an event that another thread sets once.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/deadline.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::control {

/// The process's signal handlers never run on this thread, except for faults of its own code. `name`, at most 15
/// characters, is visible in ps and debuggers.
template <typename Body> std::thread service_thread(const char* name, Body&& body) {
  sigset_t ours;
  sigfillset(&ours);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&ours, fault);
  struct Mask {
    explicit Mask(const sigset_t& set) { pthread_sigmask(SIG_SETMASK, &set, &before); }
    ~Mask() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    Mask(const Mask&) = delete;
    Mask& operator=(const Mask&) = delete;
    sigset_t before;
  };
  const Mask inherited(ours);  // the new thread inherits it
  try {
    std::thread thread(std::forward<Body>(body));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    base::throw_no_thread(name, error);
  }
}

/// Threads: any.
class Completion {
 public:
  void set() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }
  /// Returns false at the deadline, or if the program interrupts the wait.
  bool wait(base::Deadline deadline) {
    constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
    do {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::min(deadline.left(), interval), [this] { return done_; })) return true;
    } while (!deadline.expired() && !base::is_interrupted());
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

}  // namespace hmc::control
