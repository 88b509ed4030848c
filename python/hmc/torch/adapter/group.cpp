#include "group.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>

#include <hmc/team.hpp>

namespace hmc::torch_adapter {

namespace {

// The worker executes a small operation if nobody has waited for it for this time. While operations are posted, it
// looks that often without being notified, because a notification costs the caller more than a small operation.
constexpr std::chrono::microseconds worker_delay{200};
constexpr std::chrono::milliseconds worker_dozes{50};
// A thread that waits for a message leaves the lock that often.
constexpr std::chrono::milliseconds message_slice{2};
constexpr std::chrono::nanoseconds no_limit{std::chrono::seconds{100'000'000}};

Failure as_failure(const hmc::Error& error) { return {error.what(), static_cast<int>(error.code()), error.peer()}; }

/// The threads get the lock in the order of their calls.
class FairMutex {
 public:
  void lock() {
    const std::lock_guard next(next_);
    held_.lock();
  }
  void unlock() { held_.unlock(); }

 private:
  std::mutex next_;
  std::mutex held_;
};

/// The second Runtime of a group finds its ranks by a broadcast of the first.
KeyValueStore store_over(Team& team) {
  KeyValueStore store;
  const auto text = std::make_shared<std::vector<char>>(2048);
  store.set = [&team, text](const std::string& /*key*/, const std::string& value) {
    if (value.size() >= text->size()) throw std::runtime_error("the record is too long");
    std::memcpy(text->data(), value.c_str(), value.size() + 1);
    team.broadcast(text->data(), text->size(), 0);
  };
  store.get = [&team, text](const std::string& /*key*/, Timeout /*timeout*/) {
    if (text->front() == 0) team.broadcast(text->data(), text->size(), 0);
    return std::string(text->data());
  };
  return store;
}

}  // namespace

struct Group::State : std::enable_shared_from_this<State> {
  int rank = 0;
  const pid_t process = ::getpid();
  std::shared_ptr<void> kept;

  // ---- collectives
  std::mutex mutex;
  std::condition_variable changed;  ///< for threads in wait(): an operation is complete, or nobody executes one
  std::condition_variable posted;   ///< for the worker
  std::deque<std::shared_ptr<Operation>> queue;
  std::vector<Window> retired;
  int waiting = 0;
  bool busy = false;  ///< a thread executes an operation
  bool has_worker = false;
  bool worker_sleeps = false;
  bool urgent = false;
  bool leaving = false;
  std::atomic<bool> failed{false};  ///< the ranks are at different steps, or one has ended: they can't leave together
  Milliseconds current_timeout{0};
  std::optional<Runtime> collectives;

  // ---- messages. Lock order: messages_lock, then mutex.
  FairMutex messages_lock;
  std::vector<std::shared_ptr<Message>> adopted;
  std::vector<std::shared_ptr<Message>> watched;
  bool has_watcher = false;
  bool messages_closed = false;
  std::optional<Runtime> messages;

  std::mutex end;  ///< abort() and the end of the Runtimes

  void join(Store& store, int size, Milliseconds timeout);
  void require_open() const;
  void note(const hmc::Error& error) noexcept;
  void execute(const std::shared_ptr<Operation>& operation, std::unique_lock<std::mutex>& lock);
  void start_worker();
  void work();
  void close();

  void begin(const std::shared_ptr<Message>& message);
  bool look(const std::shared_ptr<Message>& message, Timeout timeout);
  void finish(const std::shared_ptr<Message>& message, std::exception_ptr error);
  void sweep();
  void watch_messages();
};

namespace {

/// The groups of this process whose Runtimes are open. Never destroyed: the workers use it until the process ends.
struct Registry {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<void>> open;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

// ---- start

void Group::State::join(Store& store, int size, Milliseconds timeout) {
  KeyValueStore over_torch;
  over_torch.set = [&store](const std::string& key, const std::string& value) {
    store.set(key.c_str(), value.data(), value.size());
  };
  over_torch.get = [&store](const std::string& key, Timeout left) {
    const auto value = store.get(key.c_str(), std::chrono::duration_cast<Milliseconds>(left));
    return std::string(value.begin(), value.end());
  };
  collectives = Runtime::init(over_torch, rank, size, timeout);
  messages = Runtime::init(store_over(collectives->world()), rank, size, timeout);
  // After this no rank uses the store: rank 0 of the store may end.
  collectives->world().barrier();
  current_timeout = timeout;
}

Group::Group(Store& store, int rank, int size, Milliseconds timeout, std::shared_ptr<void> kept)
    : rank_(rank), size_(size), state_(std::make_shared<State>()) {
  state_->rank = rank;
  state_->kept = std::move(kept);
  try {
    state_->join(store, size, timeout);
  } catch (const hmc::Error& error) {
    throw as_failure(error);
  }
  const std::lock_guard lock(registry().mutex);
  registry().open.push_back(state_);
}

Group::~Group() { leave(); }

// ---- collectives

void Group::State::require_open() const {
  if (leaving) throw Failure("the process group was destroyed", static_cast<int>(Code::closed), -1);
}

void Group::State::note(const hmc::Error& error) noexcept {
  switch (error.code()) {
    case Code::timeout:
    case Code::peer_failed:
    case Code::aborted:
    case Code::mismatch: failed = true; break;
    default: break;
  }
}

/// With the lock, which it leaves while the operation runs. The caller has set `busy`.
void Group::State::execute(const std::shared_ptr<Operation>& operation, std::unique_lock<std::mutex>& lock) {
  operation->state = Operation::State::running;
  std::vector<Window> windows = std::move(retired);
  retired.clear();
  lock.unlock();
  windows.clear();
  std::exception_ptr error;
  try {
    if (operation->timeout != current_timeout) {
      collectives->set_timeout(operation->timeout);
      current_timeout = operation->timeout;
    }
    operation->run(collectives->world());
  } catch (const hmc::Error& cause) {
    note(cause);
    error = std::make_exception_ptr(as_failure(cause));
  } catch (...) {
    error = std::current_exception();
  }
  operation->complete(error);
  lock.lock();
  operation->state = Operation::State::complete;
  busy = false;
  if (waiting > 0) changed.notify_all();
  if (has_worker && leaving) posted.notify_one();
}

void Group::run(std::shared_ptr<Operation> operation) {
  std::unique_lock lock(state_->mutex);
  state_->require_open();
  if (!state_->busy && state_->queue.empty()) [[likely]] {
    state_->busy = true;
    state_->execute(operation, lock);
    lock.unlock();
    operation->notify();
    return;
  }
  lock.unlock();
  post(operation);
  wait(operation, Milliseconds{0});
}

void Group::post(std::shared_ptr<Operation> operation) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.require_open();
  operation->state = Operation::State::queued;
  operation->posted = Clock::now();
  const bool is_large = operation->is_large;
  state.queue.push_back(std::move(operation));
  if (!state.has_worker) {
    state.start_worker();
  } else if (is_large || state.worker_sleeps) {
    state.posted.notify_one();
  }
}

bool Group::wait(const std::shared_ptr<Operation>& operation, Milliseconds timeout) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (operation->state == Operation::State::complete) return true;
  if (timeout > Milliseconds{0}) {  // the operation may take longer than this wait, so the worker executes it
    state.urgent = true;
    state.posted.notify_one();
    ++state.waiting;
    const bool done =
        state.changed.wait_for(lock, timeout, [&] { return operation->state == Operation::State::complete; });
    --state.waiting;
    return done;
  }
  while (operation->state != Operation::State::complete) {
    if (!state.busy && !state.queue.empty()) {
      const std::shared_ptr<Operation> first = std::move(state.queue.front());
      state.queue.pop_front();
      state.busy = true;
      state.execute(first, lock);
      lock.unlock();
      first->notify();
      lock.lock();
    } else {
      ++state.waiting;
      state.changed.wait(lock);
      --state.waiting;
    }
  }
  return true;
}

void Group::watch() {
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.empty()) return;
  state_->urgent = true;
  state_->posted.notify_one();
}

void Group::retire(Window window) {
  const std::lock_guard lock(state_->mutex);
  if (state_->collectives) state_->retired.push_back(std::move(window));
}

// ---- the worker

void Group::State::start_worker() {
  has_worker = true;
  std::thread([self = shared_from_this()] { self->work(); }).detach();
}

void Group::State::work() {
  std::unique_lock lock(mutex);
  Clock::time_point last = Clock::now();  // the last time when there was an operation
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (!queue.empty() && !busy) {
      last = now;
      const std::shared_ptr<Operation> first = queue.front();
      if (first->is_large || urgent || leaving || first->posted + worker_delay <= now) {
        queue.pop_front();
        if (queue.empty()) urgent = false;
        busy = true;
        execute(first, lock);
        lock.unlock();
        first->notify();
        lock.lock();
        last = Clock::now();
      } else {
        posted.wait_until(lock, first->posted + worker_delay);
      }
    } else if (leaving && queue.empty() && !busy) {
      break;
    } else if (!queue.empty()) {  // another thread executes an operation
      last = now;
      ++waiting;
      changed.wait_for(lock, worker_dozes);
      --waiting;
    } else if (now - last < worker_dozes) {
      posted.wait_for(lock, worker_delay * 2);
    } else {
      worker_sleeps = true;
      posted.wait(lock);
      worker_sleeps = false;
      last = Clock::now();
    }
  }
  lock.unlock();
  close();
}

// ---- the end

void Group::State::close() {
  const auto ignoring_failures = [](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {
      // The ranks that fail here have ended, or the job was aborted: nobody is left to tell.
    }
  };
  retired.clear();
  // Without close() the other ranks' calls fail at once.
  if (!failed) {
    ignoring_failures([&] {
      collectives->set_timeout(no_limit);
      collectives->close();
    });
  }
  {
    const std::lock_guard lock(messages_lock);
    messages_closed = true;
  }
  if (!failed) {
    ignoring_failures([&] {
      messages->set_timeout(no_limit);
      messages->close();
    });
  }
  {
    const std::lock_guard lock(messages_lock);
    const std::lock_guard last(end);
    messages.reset();
    collectives.reset();
    adopted.clear();  // the others are ended by look()
    kept.reset();
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.open, [this](const auto& each) { return each.get() == this; });
  all.changed.notify_all();
}

void Group::leave() noexcept {
  if (state_->process != ::getpid()) {  // a child of fork() isn't a member
    new std::shared_ptr<State>(state_);
    return;
  }
  const std::lock_guard lock(state_->mutex);
  if (std::exchange(state_->leaving, true)) return;
  if (state_->has_worker)
    state_->posted.notify_one();
  else
    state_->start_worker();
}

void Group::abort(const char* why) noexcept {
  if (state_->process != ::getpid()) return;
  const std::lock_guard lock(state_->end);
  if (state_->collectives) state_->collectives->abort(1, why);
  if (state_->messages) state_->messages->abort(1, why);
}

int Group::open_groups() noexcept {
  const std::lock_guard lock(registry().mutex);
  return static_cast<int>(registry().open.size());
}

namespace {
std::vector<std::shared_ptr<void>> open_states() {
  const std::lock_guard lock(registry().mutex);
  return registry().open;
}
}  // namespace

void Group::leave_all(Milliseconds timeout) noexcept {
  for (const auto& each : open_states()) {
    auto* const state = static_cast<State*>(each.get());
    if (state->process != ::getpid()) return;
    const std::lock_guard lock(state->mutex);
    if (std::exchange(state->leaving, true)) continue;
    if (state->has_worker)
      state->posted.notify_one();
    else
      state->start_worker();
  }
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  all.changed.wait_for(lock, timeout, [&] { return all.open.empty(); });
}

void Group::abort_all(const char* why) noexcept {
  for (const auto& each : open_states()) {
    auto* const state = static_cast<State*>(each.get());
    if (state->process != ::getpid()) return;
    const std::lock_guard lock(state->end);
    if (state->collectives) state->collectives->abort(1, why);
    if (state->messages) state->messages->abort(1, why);
  }
}

// ---- messages

/// With messages_lock.
void Group::State::begin(const std::shared_ptr<Message>& message) {
  if (messages_closed) throw Failure("the process group was destroyed", static_cast<int>(Code::closed), message->peer);
  sweep();
}

void Group::State::finish(const std::shared_ptr<Message>& message, std::exception_ptr error) {
  message->is_complete = true;
  message->complete(std::move(error));
}

/// With messages_lock. Zero: doesn't wait.
bool Group::State::look(const std::shared_ptr<Message>& message, Timeout timeout) {
  if (message->is_complete) return true;
  if (messages_closed) {
    if (messages) return false;  // close() may still complete it
    finish(message, std::make_exception_ptr(
                        Failure("the process group was destroyed", static_cast<int>(Code::closed), message->peer)));
    return true;
  }
  try {
    if (timeout == Timeout::zero()) {
      if (!message->request.test()) return false;
    } else {
      message->request.wait(timeout);
    }
    if (message->is_receive && message->status.bytes != message->bytes) {
      const std::string text = std::string(message->name) + ": rank " + std::to_string(rank) + " received " +
                               std::to_string(message->status.bytes) + " bytes from rank " +
                               std::to_string(message->status.source) + ", but its tensor has " +
                               std::to_string(message->bytes);
      throw Failure(text.c_str(), static_cast<int>(Code::mismatch), message->status.source);
    }
    finish(message, nullptr);
  } catch (const hmc::Error& error) {
    if (error.code() == Code::timeout && timeout != Timeout::zero()) return false;
    note(error);
    finish(message, std::make_exception_ptr(as_failure(error)));
  } catch (const Failure&) {
    finish(message, std::current_exception());
  }
  return true;
}

void Group::State::sweep() {
  if (adopted.empty()) [[likely]]
    return;
  std::erase_if(adopted, [this](const auto& each) { return look(each, Timeout::zero()); });
}

void Group::send(const std::shared_ptr<Message>& message, const void* data, int destination, int tag) {
  message->peer = destination;
  const std::lock_guard lock(state_->messages_lock);
  state_->begin(message);
  try {
    message->request = state_->messages->world().isend(data, message->bytes, destination, tag);
  } catch (const hmc::Error& error) {
    throw as_failure(error);
  }
  state_->look(message, Timeout::zero());
}

void Group::receive(const std::shared_ptr<Message>& message, void* data, int source, int tag) {
  message->peer = source;
  message->is_receive = true;
  const std::lock_guard lock(state_->messages_lock);
  state_->begin(message);
  try {
    message->request = state_->messages->world().irecv(data, message->bytes, source, tag, &message->status);
  } catch (const hmc::Error& error) {
    throw as_failure(error);
  }
}

bool Group::test(const std::shared_ptr<Message>& message) {
  {
    const std::lock_guard lock(state_->messages_lock);
    if (!state_->look(message, Timeout::zero())) return false;
  }
  message->notify();
  return true;
}

bool Group::wait(const std::shared_ptr<Message>& message, Milliseconds timeout) {
  const bool is_limited = timeout > Milliseconds{0};
  const Milliseconds limit = is_limited ? timeout : message->timeout;
  const Clock::time_point start = Clock::now();
  for (bool done = false; !done;) {
    const std::lock_guard lock(state_->messages_lock);
    done = state_->look(message, message_slice);
    if (done || Clock::now() - start < limit) continue;
    if (is_limited) return false;
    message->request.abandon();
    const std::string peer = message->peer >= 0 ? "rank " + std::to_string(message->peer) : "any rank";
    const std::string text = std::string(message->name) + ": rank " + std::to_string(rank_) + " waited " +
                             std::to_string(limit.count()) + " ms for " + peer + ", the timeout";
    state_->finish(message,
                   std::make_exception_ptr(Failure(text.c_str(), static_cast<int>(Code::timeout), message->peer)));
    done = true;
  }
  message->notify();
  return true;
}

void Group::watch(std::shared_ptr<Message> message) {
  const std::lock_guard lock(state_->messages_lock);
  if (message->is_complete) return;
  state_->watched.push_back(std::move(message));
  if (std::exchange(state_->has_watcher, true)) return;
  std::thread([state = state_] { state->watch_messages(); }).detach();
}

void Group::State::watch_messages() {
  for (bool is_empty = false; !is_empty;) {
    std::vector<std::shared_ptr<Message>> done;
    {
      const std::lock_guard lock(messages_lock);
      std::erase_if(watched, [&](const auto& each) {
        if (!look(each, Timeout::zero())) return false;
        done.push_back(each);
        return true;
      });
      is_empty = watched.empty();
      if (is_empty) has_watcher = false;
    }
    for (const auto& each : done) each->notify();
    if (!is_empty) std::this_thread::sleep_for(worker_delay);
  }
}

void Group::adopt(std::shared_ptr<Message> message) {
  const std::lock_guard lock(state_->messages_lock);
  if (!message->is_complete) state_->adopted.push_back(std::move(message));
}

void Group::cancel(const std::shared_ptr<Message>& message) {
  {
    const std::lock_guard lock(state_->messages_lock);
    if (state_->look(message, Timeout::zero())) return;
    message->request.abandon();
    state_->finish(message, std::make_exception_ptr(
                                Failure("the receive was cancelled", static_cast<int>(Code::error), message->peer)));
  }
  message->notify();
}

}  // namespace hmc::torch_adapter
