// The messages of a Group.
#include <algorithm>
#include <string>

#include "group_state.hpp"

namespace hmc::torch_adapter {

namespace {

// A thread that waits for a message leaves the lock that often; the second if other threads want it.
constexpr std::chrono::milliseconds message_slice{2};
constexpr std::chrono::microseconds short_message_slice{50};
constexpr std::chrono::microseconds watcher_delay{200};

}  // namespace

/// With messages_lock.
void Group::State::require_open(const Message& message) const {
  if (messages_closed) throw Failure("the process group was destroyed", static_cast<int>(Code::closed), message.peer);
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

/// With messages_lock. The adopted messages that are complete: the caller releases them without the lock.
std::vector<std::shared_ptr<Message>> Group::State::sweep() {
  std::vector<std::shared_ptr<Message>> done;
  if (adopted.empty()) [[likely]]
    return done;
  std::erase_if(adopted, [&](auto& each) {
    if (!look(each, Timeout::zero())) return false;
    done.push_back(std::move(each));
    return true;
  });
  return done;
}

/// With messages_lock.
void Group::State::expire(const std::shared_ptr<Message>& message, Milliseconds waited) {
  message->request.abandon();
  const std::string peer = message->peer >= 0 ? "rank " + std::to_string(message->peer) : "any rank";
  const std::string text = std::string(message->name) + ": rank " + std::to_string(rank) + " waited " +
                           std::to_string(waited.count()) + " ms for " + peer + ", the timeout";
  finish(message, std::make_exception_ptr(Failure(text.c_str(), static_cast<int>(Code::timeout), message->peer)));
}

void Group::send(const std::shared_ptr<Message>& message, const void* data, int destination, int tag) {
  message->peer = destination;
  std::vector<std::shared_ptr<Message>> done;
  std::unique_lock lock(state_->messages_lock);
  state_->require_open(*message);
  done = state_->sweep();
  try {
    message->request = state_->messages->world().isend(data, message->bytes, destination, tag);
  } catch (const hmc::Error& error) {
    throw as_failure(error);
  }
  const bool is_complete = state_->look(message, Timeout::zero());
  lock.unlock();
  if (is_complete) message->notify();
}

void Group::receive(const std::shared_ptr<Message>& message, void* data, int source, int tag) {
  message->peer = source;
  message->is_receive = true;
  std::vector<std::shared_ptr<Message>> done;
  const std::lock_guard lock(state_->messages_lock);
  state_->require_open(*message);
  done = state_->sweep();
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
  Clock::time_point next_poll = start + poll_interval;
  for (bool done = false; !done;) {
    if (const Clock::time_point now = Clock::now(); now >= next_poll) {
      next_poll = now + poll_interval;
      try {
        (*poll)();
      } catch (...) {
        if (message->is_receive) cancel(message);
        throw;
      }
    }
    const std::lock_guard lock(state_->messages_lock);
    done = state_->look(message, state_->messages_lock.is_contended() ? Timeout(short_message_slice) : message_slice);
    if (done || Clock::now() - start < limit) continue;
    if (is_limited) return false;
    state_->expire(message, limit);
    done = true;
  }
  message->notify();
  return true;
}

void Group::watch(std::shared_ptr<Message> message) {
  const std::lock_guard lock(state_->messages_lock);
  if (message->is_complete) return;
  message->deadline = Clock::now() + message->timeout;
  state_->watched.push_back(std::move(message));
  if (std::exchange(state_->has_watcher, true)) return;
  std::thread([state = state_] { state->watch_messages(); }).detach();
}

/// Looks at the watched messages. Callbacks may wait for another message, so another thread goes on when one is
/// complete.
void Group::State::watch_messages() {
  for (;;) {
    std::shared_ptr<Message> done;
    {
      const std::lock_guard lock(messages_lock);
      for (auto each = watched.begin(); each != watched.end(); ++each) {
        if (!look(*each, Timeout::zero())) {
          if (messages_closed || Clock::now() < (*each)->deadline) continue;
          expire(*each, (*each)->timeout);
        }
        done = std::move(*each);
        watched.erase(each);
        break;
      }
      if (done) {
        has_watcher = !watched.empty();
        if (has_watcher) std::thread([self = shared_from_this()] { self->watch_messages(); }).detach();
      }
    }
    if (done) {
      done->notify();
      return;
    }
    std::this_thread::sleep_for(watcher_delay);
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
