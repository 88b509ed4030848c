// Completion: an event that another thread sets once.
#pragma once

#include <condition_variable>
#include <mutex>

#include "runtime/base/deadline.hpp"

namespace hmc::bootstrap {

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
  /// Returns false at the deadline.
  bool wait(base::Deadline deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, deadline.left(), [this] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

}  // namespace hmc::bootstrap
