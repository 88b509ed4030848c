#include "runtime/base/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace hmc::base {

namespace {

/// How long one sleep may last: what a wait costs at most when its writer doesn't ring.
constexpr long longest_sleep_ns = 1'000'000;
/// After this long in a spinning wait, naps replace yields: somebody is busy elsewhere.
constexpr std::int64_t patience_ns = 200'000'000;
constexpr long nap_ns = 50'000;
/// Yields before sleeping: enough for every rank of a full node to have its turn. Fewer put ranks to sleep
/// that are awaited next; many more steal time from a rank that computes. But where all others of a core sleep or yield
/// too, that many are over at once, and to sleep and be woken takes longer than most waits: so for this long at least.
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

Status Waiter::until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                            std::chrono::nanoseconds timeout) noexcept {
  const std::int64_t start = now_ns();
  if (sleeps_) {  // before anything that costs more than a switch of context
    const std::int64_t quick = std::min<std::int64_t>(quick_ns, timeout.count());
    for (int i = 0; i < quick_yields || now_ns() - start < quick; ++i) {
      drive_wires();
      if (ready(context)) return {};
      ::sched_yield();
      if (ready(context)) return {};
    }
  }
  const Posted posted(page_.activity(local_index_), note);
  const std::int64_t limit = timeout.count() > INT64_MAX - start ? INT64_MAX : start + timeout.count();
  for (;;) {
    // A wire that moves is polled without a pause, but not so long that a peer's steady traffic could hide
    // the deadline or a death.
    for (int i = 0; i < busy_rounds && drive_wires() > 0; ++i)
      if (ready(context)) return {};
    if (ready(context)) return {};
    const Status aborted = page_.aborted();
    if (!aborted.ok()) return aborted;
    const std::int64_t now = now_ns();
    if (note.watch != nullptr) {
      if (const Status status = note.watch->look(note, now); !status.ok()) return status;
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
  // Before the fence: a ring after it changes the value, and the futex call returns at once.
  const std::uint32_t bell = door.bell.load(std::memory_order_acquire);
  page_.sleepers().fetch_add(1, std::memory_order_seq_cst);
  full_fence();  // the sleeper's fence of the argument in wait.hpp
  const bool arrived = ready(context);
  if (!arrived) {
    const timespec span{0, longest_sleep_ns};
    ::syscall(SYS_futex, &door.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  // Relaxed: who still reads the old count rings once for nothing.
  page_.sleepers().fetch_sub(1, std::memory_order_relaxed);
  return arrived;
}

void Waiter::ring_now(int local_index) const noexcept {
  Doorbell& door = page_.doorbell(local_index);
  // Release: pairs with the acquire load of the bell; the sleeper that sees it sees the bytes.
  door.bell.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &door.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Waiter::wake_background(Doorbell& door) noexcept {
  // Release: pairs with the thread's acquire load before it sleeps; it sees what came before the nudge.
  door.nudges.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &door.nudges, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Waiter::nudge_now(Doorbell& door) noexcept {
  std::uint32_t asked = Doorbell::asked;
  // Acquire and release: takes what the asker wrote before, and hands it on to the thread that is woken.
  if (door.wanted.compare_exchange_strong(asked, Doorbell::nudged, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
    wake_background(door);
}

}  // namespace hmc::base
