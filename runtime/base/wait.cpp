#include "runtime/base/wait.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <exception>
#include <utility>

#include "runtime/base/interrupt.hpp"

namespace hmc::base {

namespace {

/// The maximum time of one sleep. It is also the maximum delay if the writer doesn't ring.
constexpr long longest_sleep_ns = 1'000'000;
/// After this time in one wait the awaited rank computes, or waits for a core: several time slices of Linux.
constexpr std::int64_t patience_ns = 10'000'000;
/// The same for HMC_WAIT=spin, and for a rank that progresses wires, which can't ring.
constexpr std::int64_t long_patience_ns = 200'000'000;
constexpr long nap_ns = 50'000;
/// The minimum number of yields before a sleep, so that each rank of a full node gets its time slice. With fewer yields
/// ranks would sleep that are awaited next. With many more a computing rank would lose time. If all other ranks of the
/// core also sleep or yield, the yields return at once, and a sleep with its wake-up takes longer than most waits. So a
/// minimum time also applies.
constexpr int quick_yields = 30;
constexpr std::int64_t quick_ns = 100'000;
/// A yield that takes this long was followed by a time slice of a program that doesn't wait.
constexpr std::int64_t slow_yield_ns = 1'000'000;
constexpr std::int64_t polls_after_slow_yield_ns = 100'000'000;
/// If a round of a wait takes longer, this process was stopped, and perhaps the awaited rank too (SIGSTOP to the job, a
/// paused virtual machine). That time doesn't count for deadlines. Several such rounds in a row are something else.
constexpr std::int64_t longest_round_ns = 1'000'000'000;
/// A rank that was on the same core then may have moved since.
constexpr std::int64_t old_look_ns = 10'000'000;
/// After this time one of the ranks on a core moves to another, if there is one without ranks.
constexpr std::int64_t shares_at_most_ns = 2'000'000;
constexpr int busy_rounds = 64;

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0U, 0); }

/// Registration takes 2 us in a process with one thread. With several, the kernel waits 10 ms for all CPUs.
bool has_one_thread() noexcept {
  struct stat tasks {};
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;  // two, and one per thread
}

void nap() noexcept {
  const timespec span{0, nap_ns};
  ::nanosleep(&span, nullptr);
}

}  // namespace

Waiter::Waiter(NodePage page, int local_index, WaitMode mode, bool is_crowded) noexcept
    : page_(std::move(page)),
      local_index_(local_index),
      sleeps_(mode == WaitMode::sleep || (mode == WaitMode::adapt && is_crowded)),
      looks_around_(mode == WaitMode::adapt && !sleeps_),
      yields_first_(sleeps_),
      cpus_(page_.cpus()) {
  if (sleeps_ || !has_one_thread() || membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0) return;
  is_fenceless_ = true;
  page_.fenceless().fetch_add(1, std::memory_order_seq_cst);
}

std::uint16_t Waiter::current_cpu() noexcept {
  const auto cpu = static_cast<std::uint16_t>(::sched_getcpu() + 1);
  std::atomic<std::uint16_t>& published = cpus_[local_index_];
  if (published.load(std::memory_order_relaxed) != cpu) published.store(cpu, std::memory_order_relaxed);
  return cpu;
}

/// Returns whether another rank shares the core, so that this rank yields at once.
bool Waiter::look_around() noexcept {
  const std::uint16_t cpu = current_cpu();
  int sharing = -1;  // the first other rank on this CPU
  for (int rank = 0, ranks = page_.capacity(); rank < ranks && cpu != 0 && sharing < 0; ++rank)
    if (rank != local_index_ && cpus_[rank].load(std::memory_order_relaxed) == cpu) sharing = rank;
  yields_first_ = sharing >= 0;
  if (!yields_first_) {
    shares_since_ = 0;
    return false;
  }
  const std::int64_t now = now_ns();
  if (shares_since_ == 0 || now - looked_at_ > old_look_ns) shares_since_ = now;
  looked_at_ = now;
  if (sharing < local_index_ && now - shares_since_ > shares_at_most_ns) {
    shares_since_ = now;
    yields_first_ = !leave_core();
  }
  yields_first_ = yields_first_ && now >= polls_until_;
  return yields_first_;
}

/// Moves this thread to one of its CPUs on which no rank was seen. The scheduler counts runnable threads, and may leave
/// two ranks on one core for seconds if a program uses another core. Half of that core is faster than a core for both.
/// The thread's affinity is the same afterwards. Returns false if there is no such CPU.
[[gnu::cold]] bool Waiter::leave_core() noexcept {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t others = allowed;
  for (int rank = 0, ranks = page_.capacity(); rank < ranks; ++rank)
    if (const int cpu = cpus_[rank].load(std::memory_order_relaxed) - 1; cpu >= 0 && cpu < CPU_SETSIZE)
      CPU_CLR(static_cast<std::size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return false;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

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
  std::int64_t start = now_ns();
  if ((sleeps_ || (looks_around_ && look_around())) && yield_first(ready, context, start, timeout)) return {};
  ActivityScope posted(page_.activity(local_index_), note);
  std::int64_t limit = timeout.count() > INT64_MAX - start ? INT64_MAX : start + timeout.count();
  std::int64_t previous = start;
  bool was_stopped = false;  // in the last round
  struct Sleep {
    Waiter& waiter;
    bool is_counted = false;
    ~Sleep() {
      if (is_counted) waiter.end_sleep();
    }
  } sleep{*this};
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
    const std::int64_t round = now - previous;
    previous = now;
    const bool is_long = round > longest_round_ns;
    if (is_long && !was_stopped) [[unlikely]] {
      start += round;
      if (limit != INT64_MAX) limit += round;
      if (next_report != INT64_MAX) next_report += round;
    }
    was_stopped = is_long;
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
    if (const WaitYield* const others = wait_yield(); others != nullptr && others->is_wanted()) {
      posted.without(note, others->yield);
      previous = now_ns();  // the other threads' calls weren't a stop of the process
      if (ready(context)) return {};
    }
    if (sleeps_ || (looks_around_ && wires_.empty() && now - start > patience_ns)) {
      if (sleep_until_rung(ready, context, sleep.is_counted)) return {};
    } else if (now - start > long_patience_ns) {
      nap();
    } else {
      ::sched_yield();
    }
  }
}

/// Before all other steps, because each costs more than a context switch. Returns true if the condition is met.
bool Waiter::yield_first(ReadyFunction ready, void* context, std::int64_t start,
                         std::chrono::nanoseconds timeout) noexcept {
  for (int i = 0;; ++i) {
    drive_wires();
    if (ready(context)) return true;
    ::sched_yield();
    const std::int64_t now = now_ns();
    const bool is_slow = i == 0 && !sleeps_ && now - start > slow_yield_ns;
    if (is_slow) polls_until_ = now + polls_after_slow_yield_ns;
    if (ready(context)) return true;
    // On a full core 30 yields may take 100 ms.
    if (is_slow || now - start >= timeout.count() || !page_.aborted().ok()) return false;
    if (i + 1 >= quick_yields && now - start >= quick_ns) return false;
  }
}

/// True if the condition is met. Otherwise the rank was woken, or the time limit of a sleep has passed. After a time
/// limit the state is still `asleep`, so that the next sleep of this wait needs no fence.
bool Waiter::sleep_until_rung(ReadyFunction ready, void* context, bool& is_counted) noexcept {
  Doorbell& door = page_.doorbell(local_index_);
  // Relaxed: only a ringer changes the state, to `awake`; a stale value ends the futex call at once.
  if (door.state.load(std::memory_order_relaxed) == Doorbell::awake) {
    door.state.store(Doorbell::asleep, std::memory_order_relaxed);  // the fence orders it
    if (!std::exchange(is_counted, true)) page_.sleepers().fetch_add(1, std::memory_order_seq_cst);
    full_fence();  // the sleeper's fence (see wait.hpp)
    if (page_.fenceless().load(std::memory_order_relaxed) != 0) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    if (ready(context)) return true;
  }
  const timespec span{0, longest_sleep_ns};
  ::syscall(SYS_futex, &door.state, FUTEX_WAIT, Doorbell::asleep, &span, nullptr, 0);
  return false;
}

void Waiter::end_sleep() noexcept {
  // Relaxed: a ringer that loads the old values only rings once unnecessarily.
  page_.doorbell(local_index_).state.store(Doorbell::awake, std::memory_order_relaxed);
  page_.sleepers().fetch_sub(1, std::memory_order_relaxed);
}

void Waiter::wake(Doorbell& door) noexcept {
  // Relaxed: the sleeper's next poll is an acquire load of the bytes' flag. If the sleeper hasn't called futex yet, the
  // call returns at once.
  if (door.state.exchange(Doorbell::awake, std::memory_order_relaxed) == Doorbell::asleep)
    ::syscall(SYS_futex, &door.state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace hmc::base
