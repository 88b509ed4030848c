// Waiter: lets a rank wait for data and wakes waiting ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/fences.hpp"
#include "runtime/base/node_page.hpp"
#include "runtime/base/status.hpp"

namespace hmc::base {

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// A wire that moves bytes in user space. A waiting rank must call its progress().
class Progress {
 public:
  virtual ~Progress() = default;
  /// Returns the number of events. Never blocks.
  virtual int progress() noexcept = 0;
};

struct WaitNote;

/// look() is called repeatedly in a long wait, and never in a short one. A failure status ends the wait.
class Watch {
 public:
  virtual Status look(const WaitNote& note, std::int64_t now) noexcept = 0;

 protected:
  ~Watch() = default;
};

/// Describes a wait. A long wait publishes it in the rank's activity line.
struct WaitNote {
  Activity activity = Activity::computing;
  int peer = -1;
  std::uint64_t sequence = 0;
  Watch* watch = nullptr;
  std::uint64_t bytes = 0;
};

/// Publishes the rank's current wait in its activity line, and clears it at the end. Instances nest. The outermost
/// instance is the user's call and sets activity and size. An inner instance sets only the awaited rank and the
/// sequence. Relaxed: only the line's owner writes it, and readers need only a hint.
class ActivityScope {
 public:
  ActivityScope(ActivityLine& line, const WaitNote& note) noexcept
      : line_(line),
        outer_peer_(line.peer.load(std::memory_order_relaxed)),
        outer_sequence_(line.sequence.load(std::memory_order_relaxed)),
        is_outermost_(line.activity.load(std::memory_order_relaxed) ==
                      static_cast<std::uint32_t>(Activity::computing)) {
    line_.peer.store(note.peer, std::memory_order_relaxed);
    line_.sequence.store(note.sequence, std::memory_order_relaxed);
    if (!is_outermost_) return;
    line_.bytes.store(note.bytes, std::memory_order_relaxed);
    line_.since_ns.store(now_ns(), std::memory_order_relaxed);
    line_.activity.store(static_cast<std::uint32_t>(note.activity), std::memory_order_relaxed);
  }
  ~ActivityScope() {
    if (!is_outermost_) {
      line_.peer.store(outer_peer_, std::memory_order_relaxed);
      line_.sequence.store(outer_sequence_, std::memory_order_relaxed);
      return;
    }
    line_.activity.store(static_cast<std::uint32_t>(Activity::computing), std::memory_order_relaxed);
    line_.since_ns.store(now_ns(), std::memory_order_relaxed);
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  ActivityLine& line_;
  std::int32_t outer_peer_;
  std::uint64_t outer_sequence_;
  bool is_outermost_;
};

/// The steps of a wait:
/// - A rank with its own core polls with `pause`, then yields between polls, then sleeps briefly between polls.
/// - If ranks outnumber cores (`sleeps`), the rank polls once, yields at least 30 times and for at least 0.1 ms (the
///   awaited rank is likely to be next in the run queue), then sleeps on its doorbell.
///
/// A rank that makes data visible to the sleeper rings its doorbell. While the waiting rank yields, it also progresses
/// the wires. After that, it also checks the abort word and the deadline in each round, and its activity line shows the
/// wait.
///
/// Memory order of the doorbell:
/// - Sleeper: load bell; sleepers += 1; full fence; poll once more; futex wait on the loaded value of bell.
/// - Ringer: make the bytes visible; full fence; load sleepers.
/// - If the sleeper's fence is first, the ringer loads sleepers > 0, increments bell and wakes.
/// - If the ringer's fence is first, the sleeper's last poll sees the bytes.
///
/// `sleepers` is one word per node: if no rank sleeps, a ringer loads one cache line that no rank writes. Each sleep
/// has a time limit, which covers writers that don't ring (for example a plain store by the user). A rank that is
/// killed in its sleep leaves the count above zero: later rings cost an unneeded system call, and no wake-up is lost.
///
/// Threads: the owner calls `until`; any thread of the node calls `ring`.
class Waiter {
 public:
  Waiter() = default;
  Waiter(NodePage page, int local_index, bool sleeps) noexcept
      : page_(std::move(page)), local_index_(local_index), sleeps_(sleeps) {}

  /// `report` is called in a wait of `interval`, and again after twice, four times, ... that time. By one rank of the
  /// node if several wait.
  using Report = std::function<void(const WaitNote& note, std::chrono::nanoseconds waited)>;
  void report_after(std::chrono::nanoseconds interval, Report report) {
    report_interval_ = interval;
    report_ = std::move(report);
  }
  void add_progress(Progress* wire) { wires_.push_back(wire); }
  void remove_progress(Progress* wire) { std::erase(wires_, wire); }
  bool sleeps() const noexcept { return sleeps_; }
  const NodePage& page() const noexcept { return page_; }
  int local_index() const noexcept { return local_index_; }

  /// Polls `ready` (bool() noexcept; its loads are acquire) until it returns true. Returns ok, timeout, peer_failed or
  /// aborted.
  template <typename Ready>
  Status until(const WaitNote& note, Ready&& ready, std::chrono::nanoseconds timeout) noexcept {
    // With a wire, poll once and then progress it: the awaited bytes may be in a socket.
    const int polls = sleeps_ || !wires_.empty() ? 1 : quick_polls;
    for (int i = 0; i < polls; ++i) {
      if (ready()) return {};
      if (polls > 1) cpu_relax();
    }
    using Callable = std::remove_reference_t<Ready>;
    const auto call = [](void* context) noexcept -> bool { return (*static_cast<Callable*>(context))(); };
    return until_slowly(note, call, const_cast<std::remove_const_t<Callable>*>(&ready), timeout);
  }

  /// Must be called after data became visible to the rank at `local_index` of this node.
  void ring(int local_index) const noexcept {
    if (sleeps_ && someone_sleeps()) ring_now(local_index);
  }
  /// Lets a caller check once before it rings several ranks.
  bool someone_sleeps() const noexcept {
    full_fence();  // the ringer's fence
    return page_.sleepers().load(std::memory_order_relaxed) != 0;
  }
  void ring_now(int local_index) const noexcept;

 private:
  using ReadyFunction = bool (*)(void* context) noexcept;
  static constexpr int quick_polls = 2000;
  Status until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                      std::chrono::nanoseconds timeout) noexcept;
  bool sleep_on_bell(ReadyFunction ready, void* context) noexcept;
  void report_wait(const WaitNote& note, std::int64_t now, std::int64_t start, std::int64_t interval) noexcept;
  int drive_wires() noexcept;

  NodePage page_;
  int local_index_ = 0;
  bool sleeps_ = false;
  std::vector<Progress*> wires_;
  std::chrono::nanoseconds report_interval_{0};
  Report report_;  // empty: none
  std::int64_t next_interrupt_check_ = 0;
};

}  // namespace hmc::base
