// TaskThread: one thread of the library that runs tasks in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace hmc::pool {

/// Starts at the first task, with all signals blocked. The destructor runs the queued tasks first. Threads: any.
class TaskThread {
 public:
  explicit TaskThread(const char* name) noexcept : name_(name) {}
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;
  void run(std::function<void()> task);
  /// Waits for the tasks that were queued before. False at the deadline.
  template <typename Deadline> bool wait(Deadline deadline) {
    std::unique_lock guard(lock_);
    const std::uint64_t target = queued_;
    return idle_.wait_for(guard, deadline.left(), [&] { return done_ >= target; });
  }

 private:
  void loop();

  const char* name_;
  std::mutex lock_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t queued_ = 0, done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace hmc::pool
