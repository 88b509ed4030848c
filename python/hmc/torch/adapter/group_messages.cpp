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
    if (error.code() != Code::mismatch) note(error);  // a message that is too long: the ranks can go on
    finish(message, std::make_exception_ptr(as_failure(error)));
  } catch (const Failure&) {
    finish(message, std::current_exception());
  }
  return true;
}

/// With messages_lock. True if the buffer isn't in use any more.
bool Group::State::is_over(const std::shared_ptr<Message>& message) {
  if (!message->is_complete) return look(message, Timeout::zero());
  if (!message->is_in_use) return true;
  if (messages_closed) return false;  // close() drops all
  try {
    return message->request.test();
  } catch (const hmc::Error&) {
    return true;
  }
}

/// With messages_lock. The adopted messages that are over: the caller releases them without the lock.
std::vector<std::shared_ptr<Message>> Group::State::sweep() {
  std::vector<std::shared_ptr<Message>> done;
  if (is_given) {
    const std::lock_guard lock(given_lock);
    for (auto& each : given_adopted) adopted.push_back(std::move(each));
    given_adopted.clear();
    is_given = false;
  }
  if (adopted.empty()) [[likely]]
    return done;
  std::erase_if(adopted, [&](auto& each) {
    if (!is_over(each)) return false;
    done.push_back(std::move(each));
    return true;
  });
  return done;
}

/// With messages_lock. Cancels the request, which may go on: its peer may have begun to read or write the buffer. Then
/// the message, with its buffer, is kept until the request is over.
void Group::State::give_up(const std::shared_ptr<Message>& message) {
  message->is_in_use = true;
  if (!messages_closed) {
    const Request::Raw same = message->request.raw();  // abandon() makes the request empty
    message->request.abandon();
    message->request = Request::from_raw(same);
  }
  adopted.push_back(message);
}

/// With messages_lock.
void Group::State::expire(const std::shared_ptr<Message>& message, Milliseconds waited) {
  give_up(message);
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
    message->request = state_->messages->world().isend_bytes(data, message->bytes, destination, tag);
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
    message->request = state_->messages->world().irecv_bytes(data, message->bytes, source, tag, &message->status);
  } catch (const hmc::Error& error) {
    throw as_failure(error);
  }
}

bool Group::test(const std::shared_ptr<Message>& message) {
  {
    const std::unique_lock lock(state_->messages_lock, std::try_to_lock);
    if (!lock.owns_lock()) {  // a thread may hold it in all of its waits, so the watcher looks instead, once
      if (!message->is_polled.exchange(true)) state_->watch(message, Clock::time_point::max());
      return false;
    }
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
    if (state_->messages_closed) std::this_thread::sleep_for(message_slice);  // close() completes it
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
  const Clock::time_point deadline = Clock::now() + message->timeout;
  state_->watch(std::move(message), deadline);
}

void Group::State::watch(std::shared_ptr<Message> message, Clock::time_point deadline) {
  const std::lock_guard lock(given_lock);
  given_watched.push_back({std::move(message), deadline});
  if (std::exchange(has_watcher, true)) return;
  std::thread([self = shared_from_this()] { self->watch_messages(); }).detach();
}

/// Looks at the watched messages, and once at those of test(), which gives them again. Callbacks may wait for another
/// message, so another thread goes on when one is complete.
void Group::State::watch_messages() {
  for (;;) {
    std::shared_ptr<Message> done;
    std::vector<std::shared_ptr<Message>> dropped;  // released without the lock
    {
      const std::lock_guard lock(messages_lock);
      {
        const std::lock_guard given(given_lock);
        for (auto& each : given_watched) watched.push_back(std::move(each));
        given_watched.clear();
        has_watcher = !watched.empty();
        if (!has_watcher) return;
      }
      for (auto each = watched.begin(); each != watched.end();) {
        if (!look(each->message, Timeout::zero())) {
          if (each->deadline == Clock::time_point::max()) {
            each->message->is_polled = false;
            dropped.push_back(std::move(each->message));
            each = watched.erase(each);
            continue;
          }
          if (messages_closed || Clock::now() < each->deadline) {
            ++each;
            continue;
          }
          expire(each->message, each->message->timeout);
        }
        done = std::move(each->message);
        watched.erase(each);
        break;
      }
      if (done) {
        const std::lock_guard given(given_lock);
        has_watcher = !watched.empty() || !given_watched.empty();
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
  const std::lock_guard lock(state_->given_lock);
  state_->given_adopted.push_back(std::move(message));
  state_->is_given = true;
}

void Group::cancel(const std::shared_ptr<Message>& message) {
  {
    const std::lock_guard lock(state_->messages_lock);
    if (state_->look(message, Timeout::zero())) return;
    state_->give_up(message);
    state_->finish(message, std::make_exception_ptr(
                                Failure("the receive was cancelled", static_cast<int>(Code::error), message->peer)));
  }
  message->notify();
}

}  // namespace hmc::torch_adapter
