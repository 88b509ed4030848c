// Group: one process group of torch on two Runtimes. This part of the adapter doesn't include torch.
//
// Only types that are independent of libstdc++'s string ABI cross this interface, because older torch wheels are built
// with the old ABI.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <hmc/runtime.hpp>
#include <hmc/window.hpp>

namespace hmc::torch_adapter {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// The store that torch hands in. The functions throw on failure. Used in the constructor of Group only.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const char* key, const char* value, std::size_t bytes) = 0;
  /// Waits until the key is set, at most `timeout`.
  virtual std::vector<char> get(const char* key, Milliseconds timeout) = 0;
};

/// A failed operation. `code` is an hmc::Code, `peer` a rank of the group or -1.
struct Failure : std::runtime_error {
  Failure(const char* text, int with_code, int with_peer)
      : std::runtime_error(text), code(with_code), peer(with_peer) {}
  int code;
  int peer;
};

/// One collective. The group executes the collectives in the order of the calls, each once.
struct Operation {
  virtual ~Operation() = default;
  /// Executes the collective. May throw.
  virtual void run(Team& team) = 0;
  /// Called once after run, by the same thread. `error` is null after success. Returns true if publish() must be
  /// called: the operation is then complete for its users when publish() calls `visible`, else as soon as this returns.
  virtual bool complete(std::exception_ptr error) noexcept = 0;
  /// Called when the next operation may begin: may wait for other operations of the group.
  virtual void publish(const std::function<void()>& visible) noexcept = 0;

  const char* name = "";
  Milliseconds timeout{0};
  bool is_large = false;  ///< the worker begins at once

  // of Group, under its lock
  enum class State : std::uint8_t { none, queued, running, complete } state = State::none;
  Clock::time_point posted;
};

/// A send or a receive in flight. The buffer stays in use until it is complete.
struct Message {
  virtual ~Message() = default;
  /// Called once, under the lock of messages: releases nothing, because the end of a tensor may wait for other locks.
  virtual void complete(std::exception_ptr error) noexcept = 0;
  /// Called after complete without a lock, maybe several times and by several threads.
  virtual void notify() noexcept {}

  const char* name = "";
  int peer = -1;
  std::size_t bytes = 0;
  Milliseconds timeout{0};
  MessageStatus status;
  // of Group, under its lock of messages
  Request request;
  bool is_receive = false;
  bool is_complete = false;
  std::atomic<bool> is_in_use{false};  ///< complete by a timeout or a cancel, but the buffer is still in use
  std::atomic<bool> is_polled{false};  ///< the watcher will look at it, because test() couldn't
};

/// Windows whose tensors have ended. They are freed between two collectives, or when the group's Runtimes are closed.
/// Not part of the group: a tensor's end may happen in the middle of any call, and a tensor may outlive its group.
class RetiredWindows {
 public:
  void add(Window window) {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) windows_.push_back(std::move(window));
  }
  std::vector<Window> take(bool last = false) {
    const std::lock_guard lock(mutex_);
    is_closed_ = is_closed_ || last;
    return std::exchange(windows_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Window> windows_;
  bool is_closed_ = false;
};

/// Windows for tensors that come and go often, at about the same steps on all ranks: buckets of DDP, buffers of FSDP. A
/// window is used again when its tensor has ended on all ranks, and freed with the group or when there are too many.
class WindowPool {
 public:
  struct Part {
    std::shared_ptr<Window> window;
    int slot;
  };
  /// Collective, in an operation of the group. At least `bytes` bytes on each rank, with any content.
  Part take(Team& team, std::size_t bytes);
  /// The tensor in the window has ended. Threads: any.
  void give_back(int slot) noexcept;
  /// The tensors that are left keep their windows.
  void close() noexcept;

 private:
  static constexpr int slots = 64;
  std::array<std::shared_ptr<Window>, slots> windows_;  ///< null in the same slots on all ranks
  std::atomic<std::uint64_t> free_{0};
};

/// Threads: any. Collectives and messages have separate Runtimes, so a message doesn't wait for a collective that is in
/// progress. Each Runtime has a lock.
///
/// Who executes a collective:
///  - run(): the caller, if no earlier collective is in progress.
///  - post(): a thread that waits for it, or the worker thread. The worker begins at once if the operation is large or
///  if
///    watch() was called, else after a moment, because most callers wait at once.
///
/// While a worker runs the callbacks of a future, another one executes the queue.
///
/// No lock of a group is held while an operation, a message or a tensor is released: a tensor's end may take the lock
/// of Python's interpreter, and threads that hold that one call the functions of a group.
class Group {
 public:
  /// Collective over the group's ranks. `kept` is released when all ranks have left.
  Group(Store& store, int rank, int size, Milliseconds timeout, std::shared_ptr<void> kept);
  /// As leave().
  ~Group();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  void run(std::shared_ptr<Operation> operation);
  void post(std::shared_ptr<Operation> operation);
  /// Waits until the operation is complete. Returns false at the deadline. Zero: no deadline.
  bool wait(const std::shared_ptr<Operation>& operation, Milliseconds timeout);
  /// The worker executes the queue without delay: something other than wait() waits for the result.
  void watch();

  /// Starts the message. Throws Failure.
  void send(const std::shared_ptr<Message>& message, const void* data, int destination, int tag);
  void receive(const std::shared_ptr<Message>& message, void* data, int source, int tag);
  /// Never blocks: the caller may hold the lock of Python's interpreter.
  bool test(const std::shared_ptr<Message>& message);
  bool wait(const std::shared_ptr<Message>& message, Milliseconds timeout);
  /// The worker completes the message without a call of wait(), at the latest after the message's timeout. Never
  /// blocks.
  void watch(std::shared_ptr<Message> message);
  /// Keeps a message that the program dropped until it is complete. Never blocks.
  void adopt(std::shared_ptr<Message> message);

  /// Ends a receive that no message has matched.
  void cancel(const std::shared_ptr<Message>& message);

  const std::shared_ptr<RetiredWindows>& retired() const noexcept;
  const std::shared_ptr<WindowPool>& pool() const noexcept;
  /// Of the collectives. Waits for the one in progress.
  Counters counters();

  /// Leaves the group without waiting: the worker closes the Runtimes once all ranks have left. Calls fail from then
  /// on.
  void leave() noexcept;
  /// Ends all operations, here and on the other ranks.
  void abort(const char* why) noexcept;
  /// The number of groups of this process that have left but whose Runtimes aren't closed, or that haven't left.
  static int open_groups() noexcept;
  /// Leaves all groups and waits until their Runtimes are closed, at most `timeout`.
  static void leave_all(Milliseconds timeout) noexcept;
  static void abort_all(const char* why) noexcept;
  /// Called every 20 ms by threads that wait for another thread's work. An exception ends the wait.
  static void set_poll(void (*poll)()) noexcept;

 private:
  struct State;
  int rank_;
  int size_;
  std::shared_ptr<State> state_;
};

}  // namespace hmc::torch_adapter
