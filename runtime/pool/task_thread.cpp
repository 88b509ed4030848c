#include "runtime/pool/task_thread.hpp"

#include <pthread.h>

#include <utility>

#include "runtime/transport/signal_mask.hpp"

namespace hmc::pool {

TaskThread::~TaskThread() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TaskThread::run(std::function<void()> task) {
  {
    const std::lock_guard guard(lock_);
    tasks_.push_back(std::move(task));
    ++queued_;
    if (!thread_.joinable()) {
      const transport::SignalMask mask;
      thread_ = std::thread([this] { loop(); });
      ::pthread_setname_np(thread_.native_handle(), name_);
    }
  }
  wake_.notify_one();
}

void TaskThread::loop() {
  std::unique_lock guard(lock_);
  for (;;) {
    wake_.wait(guard, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    guard.unlock();
    task();
    task = nullptr;  // outside the lock: it may own memory of a member
    guard.lock();
    ++done_;
    idle_.notify_all();
  }
}

}  // namespace hmc::pool
