#include <algorithm>
#include <iterator>
#include <string>

#include "group_state.hpp"

namespace hmc::torch_adapter {

namespace {

// The worker executes a small operation if no thread has waited for it for this time. While small operations are
// posted, it looks that often without being notified, because a notification costs the caller more than a small
// operation. Of large ones it is notified: looks would disturb the computation between them.
constexpr std::chrono::microseconds worker_delay{200};
constexpr std::chrono::milliseconds worker_dozes{50};
constexpr std::chrono::nanoseconds no_limit{std::chrono::seconds{100'000'000}};

/// The second Runtime of a group finds its ranks by a broadcast of the first.
KeyValueStore store_over(Team& team) {
  KeyValueStore store;
  const auto text = std::make_shared<std::string>();
  const auto exchange = [&team, text] {
    std::uint64_t bytes = text->size();
    team.broadcast(&bytes, sizeof bytes, 0);
    text->resize(bytes);
    team.broadcast(text->data(), text->size(), 0);
  };
  store.set = [text, exchange](const std::string& /*key*/, const std::string& value) {
    *text = value;
    exchange();
  };
  store.get = [text, exchange](const std::string& /*key*/, Timeout /*timeout*/) {
    if (text->empty()) exchange();
    return *text;
  };
  return store;
}

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
    const auto value = store.get(key.c_str(), std::chrono::ceil<Milliseconds>(left));
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

const std::shared_ptr<RetiredWindows>& Group::retired() const noexcept { return state_->retired; }

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

/// With the lock, which it leaves while the operation runs and while it is released. The caller has set `busy`. Returns
/// false if this thread was the worker and another one is now.
bool Group::State::execute(std::shared_ptr<Operation> operation, std::unique_lock<std::mutex>& lock, bool by_worker) {
  operation->state = Operation::State::running;
  lock.unlock();
  retired->take();
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
  const bool must_publish = operation->complete(std::move(error));
  lock.lock();
  if (!must_publish) operation->state = Operation::State::complete;
  busy = false;
  if (waiting > 0) changed.notify_all();
  if (has_worker && leaving) posted.notify_one();
  const bool hands_over = must_publish && by_worker;  // callbacks may wait for operations of the queue
  if (hands_over) {
    has_worker = false;
    if (!queue.empty()) wake_worker();
  }
  lock.unlock();
  if (must_publish) {
    operation->publish([&] {
      const std::lock_guard again(mutex);
      operation->state = Operation::State::complete;
      if (waiting > 0) changed.notify_all();
    });
  }
  operation.reset();
  lock.lock();
  return !hands_over || !std::exchange(has_worker, true);
}

void Group::run(std::shared_ptr<Operation> operation) {
  std::unique_lock lock(state_->mutex);
  state_->require_open();
  if (!state_->busy && state_->queue.empty()) [[likely]] {
    state_->busy = true;
    state_->execute(std::move(operation), lock, false);
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
  if (!state.has_worker || is_large || state.worker_sleeps) state.wake_worker();
}

/// With the lock. Waits for `changed`, at most until `end`. At a poll the lock is free, and an exception leaves it
/// free.
void Group::State::pause(std::unique_lock<std::mutex>& lock, Clock::time_point end) {
  const Clock::time_point next = Clock::now() + poll_interval;
  ++waiting;
  const bool is_woken = changed.wait_until(lock, std::min(next, end)) == std::cv_status::no_timeout;
  --waiting;
  if (is_woken) return;
  lock.unlock();
  (*poll)();
  lock.lock();
}

bool Group::wait(const std::shared_ptr<Operation>& operation, Milliseconds timeout) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (operation->state == Operation::State::complete) return true;
  if (timeout > Milliseconds{0}) {  // the operation may take longer than this wait, so the worker executes it
    state.urgent = true;
    state.wake_worker();
    const Clock::time_point end = Clock::now() + timeout;
    while (operation->state != Operation::State::complete && Clock::now() < end) state.pause(lock, end);
    return operation->state == Operation::State::complete;
  }
  while (operation->state != Operation::State::complete) {
    if (!state.busy && !state.queue.empty()) {
      std::shared_ptr<Operation> first = std::move(state.queue.front());
      state.queue.pop_front();
      state.busy = true;
      state.execute(std::move(first), lock, false);
    } else {
      state.pause(lock, Clock::time_point::max());
    }
  }
  return true;
}

void Group::watch() {
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.empty()) return;
  state_->urgent = true;
  state_->wake_worker();
}

// ---- the worker

/// With the lock.
void Group::State::wake_worker() {
  if (has_worker) {
    posted.notify_one();
    return;
  }
  has_worker = true;
  if (spares > wanted_spares) {
    ++wanted_spares;
    spare_wanted.notify_one();
  } else {
    std::thread([self = shared_from_this()] { self->work(); }).detach();
  }
}

void Group::State::work() {
  std::unique_lock lock(mutex);
  while (!serve(lock)) {
    if (leaving) return;
    ++spares;
    spare_wanted.wait(lock, [this] { return wanted_spares > 0 || leaving; });
    --spares;
    if (wanted_spares == 0) return;
    --wanted_spares;
  }
  lock.unlock();
  close();
}

/// With the lock. Executes the queue. Returns true when the group is to be closed, and false when another thread has
/// become the worker.
bool Group::State::serve(std::unique_lock<std::mutex>& lock) {
  Clock::time_point last = Clock::now();  // the last time when there was a small operation
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (!queue.empty() && !busy) {
      last = now;
      const Clock::time_point begin = queue.front()->posted + worker_delay;
      if (queue.front()->is_large || urgent || leaving || begin <= now) {
        std::shared_ptr<Operation> first = std::move(queue.front());
        queue.pop_front();
        if (queue.empty()) urgent = false;
        busy = true;
        const bool was_large = first->is_large;
        if (!execute(std::move(first), lock, true)) return false;
        last = was_large ? Clock::time_point{} : Clock::now();
      } else {
        posted.wait_until(lock, begin);
      }
    } else if (leaving && queue.empty() && !busy) {
      return true;
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
}

// ---- the end

void Group::State::close() {
  const auto ignoring_failures = [](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {
      // The ranks that fail here have ended, or the job was aborted: no rank is left to tell.
    }
  };
  retired->take();
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
  std::vector<std::shared_ptr<Message>> dropped;
  {
    const std::lock_guard lock(messages_lock);
    const std::lock_guard last(end);
    messages.reset();
    collectives.reset();
    const std::lock_guard given(given_lock);
    dropped.swap(adopted);  // the others are ended by look()
    std::move(given_adopted.begin(), given_adopted.end(), std::back_inserter(dropped));
    given_adopted.clear();
  }
  dropped.clear();
  kept.reset();
  retired->take(true);
  pool->close();
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
  state_->wake_worker();
  state_->spare_wanted.notify_all();
}

void Group::abort(const char* why) noexcept {
  if (state_->process != ::getpid()) return;
  const std::lock_guard lock(state_->end);
  if (state_->collectives) state_->collectives->abort(1, why);
  if (state_->messages) state_->messages->abort(1, why);
}

void Group::set_poll(void (*with)()) noexcept { poll = with; }

int Group::open_groups() noexcept {
  const std::lock_guard lock(registry().mutex);
  return static_cast<int>(std::count_if(registry().open.begin(), registry().open.end(), [](const auto& each) {
    return static_cast<State*>(each.get())->process == ::getpid();
  }));
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
    if (state->process != ::getpid()) continue;  // inherited by fork()
    const std::lock_guard lock(state->mutex);
    if (std::exchange(state->leaving, true)) continue;
    state->wake_worker();
    state->spare_wanted.notify_all();
  }
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  all.changed.wait_for(lock, timeout, [&] {
    return std::none_of(all.open.begin(), all.open.end(),
                        [](const auto& each) { return static_cast<State*>(each.get())->process == ::getpid(); });
  });
}

void Group::abort_all(const char* why) noexcept {
  for (const auto& each : open_states()) {
    auto* const state = static_cast<State*>(each.get());
    if (state->process != ::getpid()) continue;  // inherited by fork()
    const std::lock_guard lock(state->end);
    if (state->collectives) state->collectives->abort(1, why);
    if (state->messages) state->messages->abort(1, why);
  }
}

}  // namespace hmc::torch_adapter
