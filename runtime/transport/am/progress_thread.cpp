#include "runtime/transport/am/progress_thread.hpp"
#include "runtime/base/limits.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/signal_mask.hpp"

namespace hmc::transport::am {

namespace {

using std::chrono::microseconds;
constexpr microseconds first_nap{50};
/// This is the longest delay of a peer's request after the owner stops making progress.
constexpr microseconds longest_nap{1000};
constexpr std::chrono::nanoseconds forever{-1};
/// If a rank has died, the control plane reports it within this number of intervals.
constexpr std::chrono::milliseconds lost_interval{100};
constexpr int lost_intervals = 10;

}  // namespace

ProgressThread::ProgressThread(AmWire& wire, int event_fd)
    : wire_(wire), event_fd_(event_fd), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_fd_) {
    ErrorDetail detail;
    detail.operation = "wire";
    detail.sys_errno = errno;
    detail.message = "no eventfd for the progress thread: " + base::descriptor_limit();
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
  wake();
  thread_.join();
}

void ProgressThread::run() noexcept {
  while (!stopping_) {
    const std::uint64_t driven = wire_.driven();
    const bool armed = wire_.arm();
    if (armed && !sleep(true, wire_.lost_rank() < 0 ? forever : lost_interval)) return;
    wire_.awake();
    watch_lost();
    leave_it_to_the_owner(driven);
    // During a connection attempt arm() returns false although this thread has no work: sleep instead of spinning.
    if (wire_.serve() == 0 && !armed && !sleep(false, first_nap)) return;
  }
}

void ProgressThread::leave_it_to_the_owner(std::uint64_t driven) noexcept {
  auto nap = std::chrono::nanoseconds(first_nap);
  for (std::uint64_t now = wire_.driven(); now != driven && !wire_.owner_sleeps(); now = wire_.driven()) {
    driven = now;
    if (!sleep(false, nap)) return;
    watch_lost();
    nap = std::min<std::chrono::nanoseconds>(2 * nap, longest_nap);
  }
}

/// Counts intervals in which the owner waits, so that an owner that was descheduled first sees what has arrived.
void ProgressThread::watch_lost() noexcept {
  if (wire_.lost_rank() < 0 || lost_waits_ >= lost_intervals) return;
  const std::int64_t now = base::now_ns();
  if (now - lost_looked_ns_ < std::chrono::nanoseconds(lost_interval).count()) return;
  lost_looked_ns_ = now;
  const std::uint64_t driven = wire_.driven();
  if (std::exchange(lost_driven_, driven) == driven && !wire_.owner_sleeps()) return;
  if (++lost_waits_ == lost_intervals) wire_.report_lost();
}

void ProgressThread::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_fd_.get(), &one, sizeof one);
}

bool ProgressThread::sleep(bool for_events, std::chrono::nanoseconds span) noexcept {
  pollfd fds[2] = {{wake_fd_.get(), POLLIN, 0}, {event_fd_, POLLIN, 0}};
  const timespec limit{span.count() / 1'000'000'000, span.count() % 1'000'000'000};
  ::ppoll(fds, for_events ? 2 : 1, span == forever ? nullptr : &limit, nullptr);
  std::uint64_t count = 0;
  if (fds[0].revents != 0) (void)!::read(wake_fd_.get(), &count, sizeof count);
  return !stopping_;
}

}  // namespace hmc::transport::am
