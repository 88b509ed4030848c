#include "runtime/base/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <exception>

#include "runtime/base/interrupt.hpp"

namespace hmc::base {

namespace {

/// The maximum time of one sleep. It is also the maximum delay if the writer doesn't ring.
constexpr long longest_sleep_ns = 1'000'000;
/// After this time a spinning wait sleeps briefly instead of yielding: the awaited rank is busy.
constexpr std::int64_t patience_ns = 200'000'000;
constexpr long nap_ns = 50'000;
/// The minimum number of yields before a sleep, so that each rank of a full node gets its time slice. With fewer yields
/// ranks would sleep that are awaited next. With many more a computing rank would lose time. If all other ranks of the
/// core also sleep or yield, the yields return at once, and a sleep with its wake-up takes longer than most waits. So a
/// minimum time also applies.
constexpr int quick_yields = 30;
constexpr std::int64_t quick_ns = 100'000;
constexpr int busy_rounds = 64;

void nap() noexcept {
  const timespec span{0, nap_ns};
  ::nanosleep(&span, nullptr);
}

}  // namespace

int Waiter::drive_wires() noexcept {
  int happened = 0;
  for (Progress* const wire : wires_) happened += wire->progress();
  return happened;
}

[[gnu::cold]] void Waiter::report_wait(const WaitNote& note, std::int64_t now, std::int64_t start,
                                       std::int64_t interval) noexcept {
  if (!page_.claim_report(now, interval)) return;
  try {
    report_(note, std::chrono::nanoseconds(now - start));
  } catch (const std::exception&) {
    // Out of memory: the wait continues without a report.
  }
}

Status Waiter::until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                            std::chrono::nanoseconds timeout) noexcept {
  const std::int64_t start = now_ns();
  if (sleeps_) {  // first, because every other step costs more than a context switch
    const std::int64_t quick = std::min<std::int64_t>(quick_ns, timeout.count());
    for (int i = 0; i < quick_yields || now_ns() - start < quick; ++i) {
      drive_wires();
      if (ready(context)) return {};
      ::sched_yield();
      if (ready(context)) return {};
    }
  }
  const ActivityScope posted(page_.activity(local_index_), note);
  const std::int64_t limit = timeout.count() > INT64_MAX - start ? INT64_MAX : start + timeout.count();
  std::int64_t interval = report_interval_.count();
  std::int64_t next_report = report_ ? start + interval : INT64_MAX;
  for (;;) {
    // Poll a busy wire without a pause. The number of rounds is limited, so a peer's steady traffic can't delay the
    // checks of the deadline and of the abort word.
    for (int i = 0; i < busy_rounds && drive_wires() > 0; ++i)
      if (ready(context)) return {};
    if (ready(context)) return {};
    const Status aborted = page_.aborted();
    if (!aborted.ok()) return aborted;
    const std::int64_t now = now_ns();
    if (note.watch != nullptr) {
      if (const Status status = note.watch->look(note, now); !status.ok()) return status;
    }
    if (now >= next_report) {
      report_wait(note, now, start, interval);
      interval *= 2;
      next_report = start + interval;
    }
    if (now >= next_interrupt_check_) {
      next_interrupt_check_ = now + interrupt_interval_ns;
      if (is_interrupted()) {
        next_interrupt_check_ = 0;  // a wait that is part of the failure handling ends at once, too
        return Status::failure(Code::timeout, "the program interrupted the wait", note.peer);
      }
    }
    if (now >= limit) return Status::failure(Code::timeout, "the deadline passed", note.peer);
    if (sleeps_) {
      if (sleep_on_bell(ready, context)) return {};
    } else if (now - start > patience_ns) {
      nap();
    } else {
      ::sched_yield();
    }
  }
}

bool Waiter::sleep_on_bell(ReadyFunction ready, void* context) noexcept {
  Doorbell& door = page_.doorbell(local_index_);
  // Loaded before the fence: if a later ring changes the value, the futex call returns at once.
  const std::uint32_t bell = door.bell.load(std::memory_order_acquire);
  page_.sleepers().fetch_add(1, std::memory_order_seq_cst);
  full_fence();  // the sleeper's fence (see wait.hpp)
  const bool arrived = ready(context);
  if (!arrived) {
    const timespec span{0, longest_sleep_ns};
    ::syscall(SYS_futex, &door.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  // Relaxed: a ringer that loads the old count only rings once unnecessarily.
  page_.sleepers().fetch_sub(1, std::memory_order_relaxed);
  return arrived;
}

void Waiter::ring_now(int local_index) const noexcept {
  Doorbell& door = page_.doorbell(local_index);
  // Release: pairs with the sleeper's acquire load of the bell; a sleeper that loads this value sees the bytes.
  door.bell.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &door.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hmc::base
