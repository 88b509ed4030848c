#include "runtime/transport/am/progress_thread.hpp"
#include "runtime/base/limits.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <hmc/error.hpp>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/signal_mask.hpp"

namespace hmc::transport::am {

namespace {

using std::chrono::microseconds;
/// Longer than most exchanges of a step: a thread that wakes more often takes time from the computation on its core. A
/// heat equation with a step of 0.7 ms lost 95 us per step with 50 us, and 64 us with 400 us.
constexpr microseconds first_nap{400};
/// This is the longest delay of a peer's request after the owner stops making progress.
constexpr microseconds longest_nap{1000};
/// Between attempts to make progress while a connection is being made.
constexpr microseconds connecting_nap{50};
constexpr std::chrono::milliseconds idle_nap{base::longest_poll_ms};  // while the link has no event

}  // namespace

ProgressThread::ProgressThread(AmWire& wire, int event_fd)
    : wire_(wire), event_fd_(event_fd), stop_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_fd_) {
    ErrorDetail detail;
    detail.operation = "wire";
    detail.sys_errno = errno;
    detail.message = std::string("no eventfd for the progress thread: ") +
                     (errno == EMFILE || errno == ENFILE ? base::descriptor_limit(errno) : std::strerror(errno));
    if (errno == EPERM || errno == ENOSYS) detail.hint = "does a sandbox (a seccomp filter) forbid eventfd2?";
    throw Error(std::move(detail));
  }
  const SignalMask mask;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    base::throw_no_thread("the progress thread of a wire", error);
  }
  ::pthread_setname_np(thread_.native_handle(), "hmc-wire");
}

ProgressThread::~ProgressThread() {
  stopping_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_.get(), &one, sizeof one);
  thread_.join();
}

void ProgressThread::run() noexcept {
  while (!stopping_) {
    const std::uint64_t driven = wire_.driven();
    const bool armed = wire_.arm();
    if (armed && !sleep(true, idle_nap)) return;
    wire_.awake();
    leave_it_to_the_owner(driven);
    // During a connection attempt arm() returns false although this thread has no work: sleep instead of spinning.
    if (wire_.serve() == 0 && !armed && !sleep(false, connecting_nap)) return;
  }
}

void ProgressThread::leave_it_to_the_owner(std::uint64_t driven) noexcept {
  auto nap = std::chrono::nanoseconds(first_nap);
  for (std::uint64_t now = wire_.driven(); now != driven && !wire_.owner_sleeps(); now = wire_.driven()) {
    driven = now;
    if (!sleep(false, nap)) return;
    nap = std::min<std::chrono::nanoseconds>(2 * nap, longest_nap);
  }
}

bool ProgressThread::sleep(bool for_events, std::chrono::nanoseconds span) noexcept {
  pollfd fds[2] = {{stop_fd_.get(), POLLIN, 0}, {event_fd_, POLLIN, 0}};
  const timespec limit{span.count() / 1'000'000'000, span.count() % 1'000'000'000};
  ::ppoll(fds, for_events ? 2 : 1, &limit, nullptr);
  const bool was_closed = (fds[0].revents & POLLNVAL) != 0;
  return !stopping_ && !was_closed;
}

}  // namespace hmc::transport::am
