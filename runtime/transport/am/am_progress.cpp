// AmWire's progress: the link's callbacks, progress by the owner and by the progress thread, and the sleep of that
// thread.
#include <array>
#include <cstdio>
#include <utility>

#include "runtime/progress/nudge.hpp"
#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/am/tsan_order.hpp"

namespace hmc::transport::am {

namespace {

/// If more records are in use, a rank that issues a verb first makes progress, which bounds the memory in use. The time
/// for this is limited: if a peer accepts no messages, the number grows by ten per second.
constexpr std::size_t most_sending = 4096;
constexpr std::int64_t progress_timeout_ns = 100'000'000;

/// If a rank has died, the control plane reports it within this number of intervals.
constexpr std::int64_t lost_interval_ns = 100'000'000;
constexpr int lost_intervals = 10;

}  // namespace

void AmWire::sent(Sending& record, base::Status status) noexcept {
  ++news_;
  peers_.finish(record, status);
}
void AmWire::lost(int rank, const char* why, int error) noexcept {
  ++news_;
  peers_.lost(rank, why, error);
  if (options_.fails_job && lost_.rank < 0) lost_ = {.rank = rank, .why = why};
}

/// Counts intervals in which the owner makes progress: an owner that was descheduled first handles the messages that
/// have arrived.
void AmWire::watch_lost() noexcept {
  const std::int64_t now = base::now_ns();
  if (now - lost_.counted_ns < lost_interval_ns) return;
  lost_.counted_ns = now;
  if (++lost_.waits != lost_intervals) return;
  const base::NodePage& page = options_.waiter->page();
  if (all_left_ || !page.aborted().ok()) return;
  // Not fmt::format, which allocates.
  std::array<char, 192> text{};
  std::snprintf(text.data(), text.size(), "rank %d has no connection to rank %d: %s", options_.rank, lost_.rank,
                lost_.why);
  page.raise_abort(Code::peer_failed, lost_.rank, text.data());
}
void AmWire::stranger(int socket) noexcept { target_.refuse_stranger(socket); }
bool AmWire::knows(const Message& message) noexcept { return peers_.knows(message); }

void AmWire::received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  TsanOrder::received(message.origin);
  ++news_;
  target_.receive(message, data, bytes);
}

bool AmWire::begins(const Message& message) noexcept {
  TsanOrder::received(message.origin);
  return target_.begin(message);
}
LinkUser::Place AmWire::place(const Message& message, std::uint64_t at) noexcept { return target_.place(message, at); }
void AmWire::filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept {
  target_.filled(message, at, bytes);
}
void AmWire::arrived(const Message& message) noexcept {
  ++news_;
  target_.finish(message);
}

int AmWire::progress_locked() noexcept {
  // Calls progress() once: a waiting rank checks its condition before it polls the network again.
  const std::uint64_t news = news_;
  const int came = link_->progress();
  int happened = 0;
  do {
    peers_.reap();  // first: while it waits, the link may release messages, which no later event reports
    // Alternate, so that neither this rank's transfers nor its answers use all slots of the link.
    const bool answers_first = (++turn_ & 1) == 0;
    if (answers_first) happened += target_.answer();
    happened += peers_.pump();
    if (!answers_first) happened += target_.answer();
  } while (peers_.any_failed());
  // A received message may belong to a nonblocking operation that was started while the rank computes: nudge the
  // background thread that progresses it.
  news_ += static_cast<std::uint64_t>(happened);
  if (news_ != news && options_.waiter != nullptr)
    progress::nudge(options_.waiter->page().doorbell(options_.waiter->local_index()));
  return came + happened;
}

int AmWire::progress() noexcept {
  driven_.fetch_add(1, std::memory_order_relaxed);
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  const int happened = progress_locked();
  if (lost_.rank >= 0) [[unlikely]]
    watch_lost();
  return happened;
}

void AmWire::relieve() noexcept {
  if (peers_.sending() < most_sending) return;
  const std::int64_t limit = base::now_ns() + progress_timeout_ns;
  while (peers_.sending() >= most_sending && base::now_ns() < limit) progress_locked();
}

bool AmWire::owner_sleeps() const noexcept {
  if (options_.waiter == nullptr) return false;
  const base::Waiter& waiter = *options_.waiter;
  // Relaxed: a hint; a stale value costs one short sleep.
  return waiter.page().sleepers().load(std::memory_order_relaxed) != 0;
}

bool AmWire::arm() noexcept {
  bool armed = false;
  {
    const std::lock_guard guard(lock_);
    // A link may report an event only once, so handle all pending events first.
    const std::uint64_t news = news_;
    came_while_arming_ = link_->progress();
    thread_asleep_ = came_while_arming_ == 0 && !peers_.could_pump() && link_->arm();
    armed = thread_asleep_;
    if (news_ == news) return armed;
  }
  wake_owner();  // at once: while the owner makes progress, serve() is deferred
  return armed;
}

/// Wakes the owner, which may sleep until this event, and the background thread of non-blocking operations.
void AmWire::wake_owner() const noexcept {
  if (options_.waiter == nullptr) return;
  options_.waiter->ring(options_.waiter->local_index());
  progress::nudge(options_.waiter->page().doorbell(options_.waiter->local_index()));
}

void AmWire::awake() noexcept {
  const std::lock_guard guard(lock_);
  thread_asleep_ = false;
}

int AmWire::serve() noexcept {
  int happened = 0;
  int came_before = 0;  // already reported by arm()
  bool has_news = false;
  {
    const std::lock_guard guard(lock_);
    const std::uint64_t news = news_;
    happened = progress_locked();
    has_news = news_ != news;
    came_before = std::exchange(came_while_arming_, 0);
  }
  if (has_news) wake_owner();
  return happened + came_before;
}

}  // namespace hmc::transport::am
