#include "runtime/progress/background.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <system_error>
#include <utility>

#include "runtime/base/limits.hpp"
#include "runtime/progress/nudge.hpp"

namespace hmc::progress {

using base::Doorbell;

namespace {

/// An owner that makes its next call within prompt_ns doesn't need the thread. votes_for_prompt such calls in a row
/// select prompt mode.
constexpr std::int64_t prompt_ns = 20'000;
constexpr int votes_for_prompt = 4;
/// If the owner makes no call for this time with an operation in flight, it computes, and the thread steps its
/// operations.
constexpr std::int64_t away_ns = 1'000'000;
constexpr std::int64_t first_nap_ns = 1'000'000;
constexpr std::int64_t longest_prompt_nap_ns = 2'000'000;
constexpr std::int64_t longest_nap_ns = 50'000'000;
constexpr std::int64_t short_nap_ns = 20'000;
/// Maximum time between queries of a stream. If ranks outnumber cores, each query takes CPU time from another thread.
constexpr std::int64_t longest_stream_nap_ns = 100'000;
constexpr std::int64_t longest_shared_stream_nap_ns = 1'000'000;
/// Number of rounds without a step before the thread requests nudges and sleeps: the next message may arrive soon.
constexpr int patient_rounds = 30;
/// Number of ticks with no operation in flight before the thread sleeps without a timeout.
constexpr int ticks_before_parking = 10;

}  // namespace

void wake_background(Doorbell& door) noexcept {
  // Release: pairs with the thread's acquire load before its sleep; the thread sees all writes before the nudge.
  door.nudges.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &door.nudges, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void detail::nudge_now(Doorbell& door) noexcept {
  std::uint32_t asked = Doorbell::asked;
  // Acquire: pairs with the requester's release store of `asked`. Release: the woken thread sees the requester's
  // writes.
  if (door.wanted.compare_exchange_strong(asked, Doorbell::nudged, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
    wake_background(door);
}

void Background::enter(Entry call) noexcept {
  if (depth_++ > 0 || door_ == nullptr) return;
  inside_.store(true, std::memory_order_relaxed);
  take_over(call);
}

void Background::take_over(Entry call) noexcept {
  if (door_ == nullptr) return;
  entries_.store(entries_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (const std::int64_t left_at = left_at_ns_.load(std::memory_order_relaxed); left_at != 0) {
    left_at_ns_.store(0, std::memory_order_relaxed);
    // Select the mode from the time that the owner spent outside HMC with an operation in flight. This is also done in
    // prompt mode, where the thread may not have observed that time.
    if (base::now_ns() - left_at > prompt_ns) {
      prompt_votes_ = 0;
      prompt_.store(false, std::memory_order_relaxed);
    } else if (call == Entry::asks && has_just_started_ && !is_prompt() && ++prompt_votes_ >= votes_for_prompt) {
      prompt_votes_ = 0;
      prompt_.store(true, std::memory_order_relaxed);
      wake_background(*door_);  // its current sleep may be longer than the maximum of this mode
    }
  }
  has_just_started_ = call == Entry::starts;
  quiet();
}

void Background::leave() noexcept {
  if (--depth_ > 0) return;
  inside_.store(false, std::memory_order_relaxed);
  if (started_.empty() || !allowed_) return;
  const std::lock_guard guard(lock_);
  settle();
}

/// The owner clears inside_ before ask(), so a nudged thread sees that the owner has left its call. After ask() the
/// owner steps once more, because an event before the request caused no nudge.
void Background::settle() noexcept {
  if (!something_goes_on()) return quiet();
  if (!begin()) return;
  if (std::exchange(parked_, false)) wake_background(*door_);
  const bool at_once = something_waits_for_a_stream();  // a stream doesn't nudge
  if (at_once || !is_prompt()) {
    ask();
    step_all(Started::By::owner);
    if (!something_goes_on()) return quiet();
  }
  if (at_once) nudge(*door_);
  left_at_ns_.store(base::now_ns(), std::memory_order_relaxed);
}

bool Background::something_goes_on() const noexcept {
  return std::ranges::any_of(started_, [](const Started* started) { return started->goes_on(); });
}

bool Background::something_waits_for_a_stream() const noexcept {
  return std::ranges::any_of(started_, [](const Started* started) { return started->waits_for_stream(); });
}

int Background::step_all(Started::By who) noexcept {
  int steps = 0;
  for (Started* const started : started_) steps += started->step(who);
  return steps;
}

void Background::ask() noexcept {
  // Release: pairs with the acquire of the nudge's compare-exchange (nudge_now), so the nudged thread sees that the
  // owner has left its call. The fence is that of the requester in the argument in nudge.hpp.
  door_->wanted.store(Doorbell::asked, std::memory_order_release);
  base::full_fence();
}

void Background::quiet() noexcept {
  // Relaxed: a thread that still loads `asked` nudges unnecessarily, which is harmless.
  if (door_ != nullptr && door_->wanted.load(std::memory_order_relaxed) != Doorbell::quiet)
    door_->wanted.store(Doorbell::quiet, std::memory_order_relaxed);
}

bool Background::begin() noexcept {
  if (is_running()) return true;
  if (!allowed_) return false;
  door_ = &waiter_.page().doorbell(waiter_.local_index());
  sigset_t all, before;  // the thread blocks all signals, so the application's threads handle them
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    ::pthread_setname_np(thread_.native_handle(), "hmc-progress");
  } catch (const std::system_error& error) {
    door_ = nullptr;
    allowed_ = false;
    log_.warn("{}: started collectives progress in calls only", base::no_thread_text("the progress thread", error));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_.joinable();
}

void Background::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake_background(*door_);
  thread_.join();
  quiet();
  allowed_ = false;
}

void Background::end_all() noexcept {
  while (!started_.empty()) {
    Started* const last = started_.back();
    started_.pop_back();
    last->end();
  }
}

// ---- called by the thread

void Background::run() noexcept {
  const std::int64_t longest_look_ns = waiter_.sleeps() ? longest_shared_stream_nap_ns : longest_stream_nap_ns;
  std::int64_t nap = first_nap_ns, stream_nap = short_nap_ns;
  // Acquire: pairs with the release in stop().
  while (!stopping_.load(std::memory_order_acquire)) {
    // Loaded before look(): if a later nudge changes the value, the futex call returns at once. Acquire: this thread
    // sees all earlier writes of the requesting owner and of the nudging thread.
    const std::uint32_t nudges = door_->nudges.load(std::memory_order_acquire);
    const Found found = look();
    switch (found) {
      case Found::moved:
      case Found::wait_a_bit:
        nap = first_nap_ns;
        stream_nap = short_nap_ns;
        ::sched_yield();
        break;
      case Found::lock_busy: sleep(nudges, short_nap_ns); break;
      case Found::only_streams:
        nap = first_nap_ns;
        sleep(nudges, stream_nap);
        stream_nap = std::min(2 * stream_nap, longest_look_ns);
        break;
      case Found::nothing_for_long:
        sleep(nudges, -1);
        nap = first_nap_ns;
        break;
      case Found::nothing:
        nap = std::min(nap, is_prompt() ? longest_prompt_nap_ns : longest_nap_ns);
        sleep(nudges, nap);
        nap *= 2;
        break;
    }
  }
}

Background::Found Background::look() noexcept {
  const bool is_nudged = door_->wanted.load(std::memory_order_acquire) == Doorbell::nudged;
  const std::uint64_t entries = entries_.load(std::memory_order_relaxed);
  const std::int64_t left_at = left_at_ns_.load(std::memory_order_relaxed);
  // The owner has made no call since the last look(), or has been away for away_ns.
  const bool owner_is_away = entries == entries_seen_ || (left_at != 0 && base::now_ns() - left_at > away_ns);
  entries_seen_ = entries;
  if (inside_.load(std::memory_order_relaxed)) {
    awake_ = false;  // the owner steps its operations itself, and requests nudges at the end of its call
    return Found::nothing;
  }
  if (!is_nudged && !owner_is_away && !awake_) return Found::nothing;
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return is_nudged || awake_ || owner_is_away ? Found::lock_busy : Found::nothing;

  quiet();
  awake_ = false;
  if (!something_goes_on()) {
    parked_ = ++idle_ticks_ >= ticks_before_parking;
    return parked_ ? Found::nothing_for_long : Found::nothing;
  }
  idle_ticks_ = 0;
  // After a rank's failure or an abort no operation can succeed, and the rank's buffers may be freed at any time.
  if (!waiter_.page().aborted().ok()) {
    step_all(Started::By::thread);  // aborts all operations, so that their streams continue
    return Found::nothing;
  }
  prompt_.store(false, std::memory_order_relaxed);
  tickets_.drive_wires();
  int steps = step_all(Started::By::thread);
  idle_rounds_ = steps > 0 ? 0 : idle_rounds_ + 1;
  if (steps == 0 && (waiter_.sleeps() || idle_rounds_ > patient_rounds)) {
    ask();
    steps = step_all(Started::By::thread);
    if (steps == 0) {
      awake_ = something_waits_for_a_stream();
      return awake_ ? Found::only_streams : Found::nothing;
    }
    quiet();
    idle_rounds_ = 0;
  }
  awake_ = true;
  if (steps == 0) return Found::wait_a_bit;
  waiter_.ring(waiter_.local_index());  // the owner may sleep in a wait for a step that this thread executed
  return Found::moved;
}

void Background::sleep(std::uint32_t nudges, std::int64_t span_ns) const noexcept {
  const timespec span{span_ns / 1'000'000'000, span_ns % 1'000'000'000};
  ::syscall(SYS_futex, &door_->nudges, FUTEX_WAIT, nudges, span_ns < 0 ? nullptr : &span, nullptr, 0);
}

}  // namespace hmc::progress
