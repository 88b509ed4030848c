#include "runtime/base/poller.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::base {

namespace {

constexpr std::uint64_t wake_key = 0;
/// Length of a turn when the program has closed the Poller's descriptors.
constexpr int closed_turn_ms = 10;

[[noreturn]] void fail(const char* call, int error) {
  ErrorDetail detail;
  detail.operation = call;
  detail.sys_errno = error;
  detail.message = fmt::format("an event loop can't be created: {}: {}", call,
                               error == EMFILE || error == ENFILE ? descriptor_limit(error) : std::strerror(error));
  if (error == EPERM || error == ENOSYS) detail.hint = "does a sandbox (a seccomp filter) forbid eventfd2 or epoll?";
  throw Error(std::move(detail));
}

std::uint32_t events_of(Readiness io) noexcept { return (io.read ? EPOLLIN : 0U) | (io.write ? EPOLLOUT : 0U); }

Readiness io_of(std::uint32_t events) noexcept {
  const bool has_ended = (events & (EPOLLHUP | EPOLLERR)) != 0;
  return {has_ended || (events & EPOLLIN) != 0, has_ended || (events & EPOLLOUT) != 0};
}

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) fail("epoll_create1", errno);
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) fail("eventfd", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wake_key;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) fail("epoll_ctl", errno);
}

/// Keys sort in the order of add(), and differ from those of an earlier descriptor of the same number.
std::uint64_t Poller::key_of(int fd, const Watched& watched) noexcept {
  return std::uint64_t{watched.number} << 32 | static_cast<std::uint32_t>(fd);
}

void Poller::add(int fd, Readiness wanted, Handler handler) {
  remove(fd);
  Watched& watched = watched_.emplace(fd, Watched{++last_number_, {}, false, std::move(handler)}).first->second;
  tell_kernel(fd, watched, wanted);
}

void Poller::set(int fd, Readiness wanted) {
  const auto found = watched_.find(fd);
  if (found != watched_.end() && found->second.wanted != wanted) tell_kernel(fd, found->second, wanted);
}

void Poller::remove(int fd) noexcept {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  tell_kernel(fd, found->second, {});
  if (&found->second == running_)
    removed_ = watched_.extract(found);
  else
    watched_.erase(found);
}

/// A descriptor without a wanted event isn't in the epoll set, which reports errors and ends even if they aren't
/// wanted.
void Poller::tell_kernel(int fd, Watched& watched, Readiness wanted) noexcept {
  const Readiness before = std::exchange(watched.wanted, wanted);
  if (std::exchange(watched.is_always_ready, false)) {
    --always_ready_;
  } else if (wanted == Readiness{}) {
    if (before != Readiness{}) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    return;
  }
  if (wanted == Readiness{}) return;
  epoll_event event{};
  event.events = events_of(wanted);
  event.data.u64 = key_of(fd, watched);
  if (::epoll_ctl(epoll_.get(), before == Readiness{} ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0) return;
  if (errno == EBADF) return;  // the program has closed its descriptors
  // ENOENT: another description has got the number, without remove().
  if (errno == ENOENT && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return;
  // EPERM: a file. Without memory for the set, calls that find no data are better than data that is never found.
  watched.is_always_ready = true;
  ++always_ready_;
}

bool Poller::wait(int timeout_ms) {
  // There is space for all ready descriptors, so that what arrived before a wake-up is served in its turn.
  events_.resize(watched_.size() + 1);
  const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), sleep_ms(timeout_ms));
  const bool is_closed = count < 0 && errno != EINTR;
  if (is_closed && !stopped()) (void)::poll(nullptr, 0, closed_turn_ms);

  ready_.clear();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    if (event.data.u64 != wake_key) {
      ready_.push_back({event.data.u64, io_of(event.events)});
      continue;
    }
    std::uint64_t wakes = 0;
    (void)!::read(wake_.get(), &wakes, sizeof wakes);  // before the caller looks for what the other thread stored
  }
  if (always_ready_ > 0 && !is_closed)
    for (const auto& [fd, watched] : watched_)
      if (watched.is_always_ready) ready_.push_back({key_of(fd, watched), watched.wanted});
  std::sort(ready_.begin(), ready_.end(), [](const Ready& a, const Ready& b) { return a.key < b.key; });
  for (std::size_t i = 0; i < ready_.size(); ++i) call(ready_[i]);
  call_timers();
  return !is_closed && !stopped();
}

int Poller::sleep_ms(int timeout_ms) const noexcept {
  if (always_ready_ > 0 || stopped()) return 0;
  const int least = timeout_ms < 0 ? longest_poll_ms : std::min(timeout_ms, longest_poll_ms);
  if (timers_.empty()) return least;
  const std::int64_t left = timers_.begin()->first - now_ns();
  // Rounded up, so that the loop doesn't spin until the time.
  return left <= 0 ? 0 : static_cast<int>(std::min<std::int64_t>(least, (left + 999'999) / 1'000'000));
}

void Poller::call(const Ready& ready) {
  const auto found = watched_.find(static_cast<int>(static_cast<std::uint32_t>(ready.key)));
  // A handler of this turn may have removed it, and added another descriptor of the same number. A key that was never
  // given is of another epoll set: the program has closed this one, and the number was used again.
  if (found == watched_.end() || key_of(found->first, found->second) != ready.key) return;
  if (found->second.wanted == Readiness{}) return;
  running_ = &found->second;
  struct End {
    Poller& poller;
    ~End() {
      poller.running_ = nullptr;
      poller.removed_ = {};
    }
  } const end{*this};
  found->second.handler(ready.readiness);
}

void Poller::call_timers() {
  if (timers_.empty()) return;
  const std::int64_t now = now_ns();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Timer& due = *timers_.begin()->second;
    due.stop();
    due.handler_();
  }
}

void Poller::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);  // a full counter also wakes the thread
}

void Poller::stop() noexcept {
  stopped_.store(true, std::memory_order_release);  // pairs with stopped()
  wake();
}

void Poller::Timer::set(std::chrono::nanoseconds span) {
  stop();
  const std::int64_t now = now_ns();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() - now;
  place_ = poller_.timers_.emplace(now + std::min<std::int64_t>(span.count(), most), this);
  is_set_ = true;
}

void Poller::Timer::stop() noexcept {
  if (std::exchange(is_set_, false)) poller_.timers_.erase(place_);
}

bool wait_for(int fd, Readiness wanted, int timeout_ms) noexcept {
  pollfd state{fd, static_cast<short>((wanted.read ? POLLIN : 0) | (wanted.write ? POLLOUT : 0)), 0};
  return ::poll(&state, 1, timeout_ms) > 0;
}

}  // namespace hmc::base
