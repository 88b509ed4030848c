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
  /// True if progress() never makes a system call. Then a wait calls it between its first polls, before it yields.
  virtual bool is_quick() const noexcept { return false; }
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
        outer_activity_(line.activity.load(std::memory_order_relaxed)),
        is_outermost_(outer_activity_ <= static_cast<std::uint32_t>(Activity::starting)),
        since_ns_(is_outermost_ ? now_ns() : 0) {
    post(note);
  }
  ~ActivityScope() { clear(); }
  /// Clears it while `other` runs, which may be calls of the rank's other threads.
  template <typename Other> void without(const WaitNote& note, Other&& other) noexcept {
    clear();
    other();
    post(note);
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  void post(const WaitNote& note) noexcept {
    line_.peer.store(note.peer, std::memory_order_relaxed);
    line_.sequence.store(note.sequence, std::memory_order_relaxed);
    if (!is_outermost_) return;
    line_.bytes.store(note.bytes, std::memory_order_relaxed);
    line_.since_ns.store(since_ns_, std::memory_order_relaxed);
    line_.activity.store(static_cast<std::uint32_t>(note.activity), std::memory_order_relaxed);
  }
  void clear() noexcept {
    if (!is_outermost_) {
      line_.peer.store(outer_peer_, std::memory_order_relaxed);
      line_.sequence.store(outer_sequence_, std::memory_order_relaxed);
      return;
    }
    line_.activity.store(outer_activity_, std::memory_order_relaxed);
    line_.since_ns.store(now_ns(), std::memory_order_relaxed);
  }

  ActivityLine& line_;
  std::int32_t outer_peer_;
  std::uint64_t outer_sequence_;
  std::uint32_t outer_activity_;
  bool is_outermost_;  ///< the rank was `computing`, or `starting`
  std::int64_t since_ns_;
};

/// How a rank waits: HMC_WAIT.
enum class WaitMode {
  adapt,
  spin,   ///< polls, yields, and naps in a long wait
  sleep,  ///< as if ranks outnumbered cores
};

/// The steps of a wait:
/// - A rank polls with `pause`, then yields between polls. After 10 ms it sleeps.
/// - If another rank of the node was last seen on the same CPU, the rank yields after the first poll: the awaited rank
///   may be next in the run queue. If such a yield takes a time slice, a program that doesn't wait runs there too, and
///   the rank polls for a while as if it were alone: it would lose a time slice in each wait. If the ranks still share
///   the CPU after 2 ms, one of them moves to a CPU without ranks, if it may use one.
/// - If ranks outnumber cores, the rank yields after the first poll, at least 30 times and for at least 0.1 ms. Then it
///   sleeps.
///
/// Programs on the same core that aren't ranks are no reason to sleep. The scheduler gives a rank that polls its share
/// of the core, and lets a rank that wakes up wait for the end of their time slice. Each rank publishes its CPU in the
/// node page. In a wait that is longer than some polls it reads the other ranks' CPUs.
///
/// While operations on wires are in flight, the rank also progresses the wires between polls, and doesn't sleep unless
/// ranks outnumber cores: wires can't wake it.
///
/// A long wait also checks the abort word and the deadline in each round, and the rank's activity line shows the wait.
///
/// A rank that makes data visible to a sleeper wakes it. Memory order:
/// - Sleeper: state = asleep; sleepers += 1; fence; poll once more; futex wait while state is asleep.
/// - Ringer: make the bytes visible; fence; load sleepers; load state.
/// - If the sleeper's fence is first, the ringer sees both values. It sets the state to awake, and wakes the sleeper.
/// - If the ringer's fence is first, the sleeper's last poll sees the bytes.
///
/// The ringer that changes the state wakes the sleeper. Another ringer that sees `awake` doesn't: if its fence was
/// before the sleeper's next one, the sleeper polls once more after that.
///
/// Most ranks ring and few sleep, so the sleeper pays for the fence: its membarrier call executes a fence in each
/// process of the machine that has registered and runs at this moment. A ringer that has registered only keeps the
/// compiler from reordering. Its CPU executes that fence either before the load of `sleepers`, which then returns the
/// sleeper's value, or after the bytes became visible, and then the sleeper's last poll sees them. (A process that
/// isn't running has executed a fence in the scheduler.) Such ringers are counted in `fenceless` before they ring. A
/// sleeper loads that count after its own fence. If it loads 0, a later ringer has added to it (seq_cst) after that
/// fence and loads `sleepers` after that. Ranks that outnumber cores sleep often, so their ringers execute fences, and
/// sleepers don't call membarrier.
///
/// `sleepers` is one word per node: if no rank sleeps, a ringer loads one cache line that no rank writes. Each sleep
/// has a time limit, which covers writers that don't ring (for example a plain store by the user). A rank that is
/// killed in its sleep leaves the count above zero: later rings load one more word, and no wake-up is lost.
///
/// Threads: the owner calls `until`; any thread of the node calls `ring`.
class Waiter {
 public:
  Waiter() = default;
  /// `is_crowded`: ranks outnumber cores.
  Waiter(NodePage page, int local_index, WaitMode mode, bool is_crowded = false) noexcept;

  /// `report` is called in a wait of `interval`, and again after twice, four times, ... that time. By one rank of the
  /// node if several wait.
  using Report = std::function<void(const WaitNote& note, std::chrono::nanoseconds waited)>;
  void report_after(std::chrono::nanoseconds interval, Report report) {
    report_interval_ = interval;
    report_ = std::move(report);
  }
  void add_progress(Progress* wire) {
    wires_.push_back(wire);
    slow_wires_ += wire->is_quick() ? 0 : 1;
  }
  void remove_progress(Progress* wire) { slow_wires_ -= std::erase(wires_, wire) > 0 && !wire->is_quick() ? 1 : 0; }
  /// True if ranks outnumber cores, or with HMC_WAIT=sleep.
  bool sleeps() const noexcept { return sleeps_; }
  /// True if another rank of the node was on this rank's CPU in its last long wait.
  bool shares_core() const noexcept { return yields_first_; }
  const NodePage& page() const noexcept { return page_; }
  int local_index() const noexcept { return local_index_; }

  /// Polls `ready` (bool() noexcept; its loads are acquire) until it returns true. Returns ok, timeout, peer_failed or
  /// aborted.
  template <typename Ready>
  Status until(const WaitNote& note, Ready&& ready, std::chrono::nanoseconds timeout) noexcept {
    // With a wire, poll once and then progress it: the awaited bytes may be in a socket.
    const int polls = yields_first_ || slow_wires_ > 0 ? 1 : quick_polls;
    for (int i = 0; i < polls; ++i) {
      if (ready()) return {};
      if (!wires_.empty() && polls > 1) drive_wires();
      if (polls > 1) cpu_relax();
      if (i == polls_before_look && looks_around_ && look_around()) break;
    }
    using Callable = std::remove_reference_t<Ready>;
    const auto call = [](void* context) noexcept -> bool { return (*static_cast<Callable*>(context))(); };
    return until_slowly(note, call, const_cast<std::remove_const_t<Callable>*>(&ready), timeout);
  }

  /// Publishes the CPU on which this rank runs. Called now and then by a rank that rarely waits.
  void publish_cpu() noexcept {
    if (looks_around_) static_cast<void>(current_cpu());
  }
  /// Must be called after data became visible to the rank at `local_index` of this node.
  void ring(int local_index) const noexcept {
    if (someone_sleeps()) ring_sleeper(local_index);
  }
  /// Lets a caller check once before it calls ring_sleeper() for several ranks.
  bool someone_sleeps() const noexcept {
    if (is_fenceless_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the sleeper's membarrier does the rest
    } else {
      full_fence();  // the ringer's fence
    }
    return page_.sleepers().load(std::memory_order_relaxed) != 0;
  }
  void ring_sleeper(int local_index) const noexcept {
    Doorbell& door = page_.doorbell(local_index);
    // Relaxed: the ringer's fence orders it after the bytes.
    if (door.state.load(std::memory_order_relaxed) == Doorbell::asleep) wake(door);
  }

 private:
  using ReadyFunction = bool (*)(void* context) noexcept;
  static constexpr int quick_polls = 2000;
  static constexpr int polls_before_look = 64;
  Status until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                      std::chrono::nanoseconds timeout) noexcept;
  static void wake(Doorbell& door) noexcept;
  std::uint16_t current_cpu() noexcept;
  bool look_around() noexcept;
  bool leave_core() noexcept;
  bool yield_first(ReadyFunction ready, void* context, std::int64_t start, std::chrono::nanoseconds timeout) noexcept;
  bool sleep_until_rung(ReadyFunction ready, void* context, bool& is_counted) noexcept;
  void end_sleep() noexcept;
  void report_wait(const WaitNote& note, std::int64_t now, std::int64_t start, std::int64_t interval) noexcept;
  int drive_wires() noexcept;

  NodePage page_;
  int local_index_ = 0;
  bool sleeps_ = false;        // after some yields
  bool looks_around_ = false;  // WaitMode::adapt, and the ranks don't outnumber the cores
  bool yields_first_ = false;  // before other polls: sleeps_, or the rank shares its core
  bool is_fenceless_ = false;
  std::atomic<std::uint16_t>* cpus_ = nullptr;
  std::int64_t shares_since_ = 0;  // 0: it has its own core
  std::int64_t looked_at_ = 0;     // the last look that found a rank on this core
  std::int64_t polls_until_ = 0;   // a yield was slow: until this time the rank polls as if it had its own core
  std::vector<Progress*> wires_;
  int slow_wires_ = 0;  // those that aren't quick
  std::chrono::nanoseconds report_interval_{0};
  Report report_;  // empty: none
  std::int64_t next_interrupt_check_ = 0;
};

}  // namespace hmc::base
