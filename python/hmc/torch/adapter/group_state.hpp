// The state that a Group shares with its worker. Of group.cpp and group_messages.cpp only.
#pragma once

#include <unistd.h>

#include <atomic>
#include <optional>

#include <hmc/team.hpp>

#include "group.hpp"

namespace hmc::torch_adapter {

constexpr std::chrono::milliseconds poll_interval{20};
inline std::atomic<void (*)()> poll{[] {}};  ///< of set_poll

inline Failure as_failure(const hmc::Error& error) {
  return {error.what(), static_cast<int>(error.code()), error.peer()};
}

/// The threads get the lock in the order of their calls.
class FairMutex {
 public:
  void lock() {
    const std::lock_guard next(next_);
    if (held_.try_lock()) return;
    contention_ = 200;
    held_.lock();
  }
  bool try_lock() {
    const std::unique_lock next(next_, std::try_to_lock);
    return next.owns_lock() && held_.try_lock();
  }
  /// True if threads have waited for the lock in the last 200 calls of this.
  bool is_contended() {
    const int left = contention_;
    if (left > 0) contention_ = left - 1;
    return left > 0;
  }
  void unlock() { held_.unlock(); }

 private:
  std::mutex next_;
  std::mutex held_;
  std::atomic<int> contention_{0};
};

struct Group::State : std::enable_shared_from_this<State> {
  int rank = 0;
  const pid_t process = ::getpid();
  std::shared_ptr<void> kept;

  // ---- collectives
  std::mutex mutex;
  std::condition_variable changed;  ///< for threads in wait(): an operation is complete, or none is executed
  std::condition_variable posted;   ///< for the worker
  std::deque<std::shared_ptr<Operation>> queue;
  const std::shared_ptr<RetiredWindows> retired = std::make_shared<RetiredWindows>();
  const std::shared_ptr<WindowPool> pool = std::make_shared<WindowPool>();
  int waiting = 0;
  bool busy = false;        ///< a thread executes an operation
  bool has_worker = false;  ///< a thread executes the queue, or was started for that
  int spares = 0;           ///< threads that were a worker and wait for spare_wanted
  int wanted_spares = 0;
  std::condition_variable spare_wanted;
  bool worker_sleeps = false;
  bool urgent = false;
  bool leaving = false;
  std::atomic<bool> failed{false};  ///< the ranks are at different steps, or one has ended: they can't leave together
  Milliseconds current_timeout{0};
  std::optional<Runtime> collectives;

  // ---- messages. Lock order: messages_lock, then given_lock.
  struct Watched {
    std::shared_ptr<Message> message;
    Clock::time_point deadline;
  };
  FairMutex messages_lock;  ///< a thread may hold it while it waits for the lock of Python's interpreter
  std::vector<std::shared_ptr<Message>> adopted;
  std::vector<Watched> watched;
  std::atomic<bool> messages_closed{false};
  std::mutex given_lock;  ///< held for moments only. Of the following, which threads give without messages_lock
  std::vector<std::shared_ptr<Message>> given_adopted;
  std::vector<Watched> given_watched;
  bool has_watcher = false;
  std::atomic<bool> is_given{false};  ///< given_adopted isn't empty
  std::optional<Runtime> messages;

  std::mutex end;  ///< abort() and the end of the Runtimes

  void join(Store& store, int size, Milliseconds timeout);
  void require_open() const;
  void note(const hmc::Error& error) noexcept;
  bool execute(std::shared_ptr<Operation> operation, std::unique_lock<std::mutex>& lock, bool by_worker);
  void wake_worker();
  void pause(std::unique_lock<std::mutex>& lock, Clock::time_point end);
  bool serve(std::unique_lock<std::mutex>& lock);
  void work();
  void close();

  std::vector<std::shared_ptr<Message>> sweep();
  void watch(std::shared_ptr<Message> message, Clock::time_point deadline);
  void give_up(const std::shared_ptr<Message>& message);
  bool is_over(const std::shared_ptr<Message>& message);
  void require_open(const Message& message) const;
  bool look(const std::shared_ptr<Message>& message, Timeout timeout);
  void finish(const std::shared_ptr<Message>& message, std::exception_ptr error);
  void expire(const std::shared_ptr<Message>& message, Milliseconds waited);
  void watch_messages();
};

}  // namespace hmc::torch_adapter
