// Waiter: how a rank waits, and how it is woken.
#pragma once

#include <atomic>
#include <cstdint>
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

/// Something that must be driven while this rank waits: a wire that moves bytes in user space.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Returns how many things happened. Never blocks.
  virtual int progress() noexcept = 0;
};

struct WaitNote;

/// Looks after a long wait from its slow part on, which a quick wait never enters: a failure ends the wait.
class Watch {
 public:
  virtual Status look(const WaitNote& note, std::int64_t now) noexcept = 0;

 protected:
  ~Watch() = default;
};

/// What a long wait says of itself in the rank's activity line.
struct WaitNote {
  Activity activity = Activity::computing;
  int peer = -1;
  std::uint64_t sequence = 0;
  Watch* watch = nullptr;
};

/// Publishes in the rank's activity line what the rank waits for, and clears it at the end. Instances nest: the
/// outermost one is the user's call and sets the activity; an inner one sets only the awaited rank and the sequence.
/// Relaxed: only the line's owner writes it, and readers need no more than a hint.
class Posted {
 public:
  Posted(ActivityLine& line, const WaitNote& note) noexcept
      : line_(line),
        outer_peer_(line.peer.load(std::memory_order_relaxed)),
        outer_sequence_(line.sequence.load(std::memory_order_relaxed)),
        is_outermost_(line.activity.load(std::memory_order_relaxed) ==
                      static_cast<std::uint32_t>(Activity::computing)) {
    line_.peer.store(note.peer, std::memory_order_relaxed);
    line_.sequence.store(note.sequence, std::memory_order_relaxed);
    if (!is_outermost_) return;
    line_.since_ns.store(now_ns(), std::memory_order_relaxed);
    line_.activity.store(static_cast<std::uint32_t>(note.activity), std::memory_order_relaxed);
  }
  ~Posted() {
    if (!is_outermost_) {
      line_.peer.store(outer_peer_, std::memory_order_relaxed);
      line_.sequence.store(outer_sequence_, std::memory_order_relaxed);
      return;
    }
    line_.activity.store(static_cast<std::uint32_t>(Activity::computing), std::memory_order_relaxed);
    line_.since_ns.store(now_ns(), std::memory_order_relaxed);
  }
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;

 private:
  ActivityLine& line_;
  std::int32_t outer_peer_;
  std::uint64_t outer_sequence_;
  bool is_outermost_;
};

/// The wait ladder. A rank with a core to itself polls with `pause`, then yields between polls, then naps.
/// Where ranks outnumber cores (`sleeps`) it looks once, yields its core a few dozen times and for a tenth of a
/// millisecond (whoever is awaited is likely to be next in the run queue), and then sleeps on its doorbell; whoever
/// makes something visible to it rings. The yields drive the wires too; after them every turn also looks at the
/// abort word and the deadline, and the rank's line says what it waits for.
///
/// The doorbell's argument. The sleeper does: sleepers += 1; full fence; a last look; sleep on the bell's
/// value read before. The ringer does: make its bytes visible; full fence; read sleepers. One of the two
/// fences comes first: if the sleeper's, the ringer reads sleepers > 0, raises the bell and wakes; if
/// the ringer's, the sleeper's last look sees the bytes. One word per node, so that the usual ringer,
/// with nobody asleep, reads one line that nobody writes. A bound on each sleep covers writers that
/// don't ring (a user's own store). A rank that is killed while it sleeps leaves the count above zero: from
/// then on ringers ring for nothing, which costs a system call and misses nobody.
///
/// A rank that computes while something that it has started is under way is nudged: its background thread (see
/// window/background.hpp) goes on with it. The same argument: that side says `asked`; full fence; a last look. The
/// other makes its bytes visible; full fence; reads `wanted`. One look, one nudge: whoever turns `asked` into `nudged`
/// wakes the thread, and nobody else does until it asks again.
///
/// Threads: `until` by the owner; `ring` and `nudge` by anybody on the node.
class Waiter {
 public:
  Waiter() = default;
  Waiter(NodePage page, int local_index, bool sleeps) noexcept
      : page_(std::move(page)), local_index_(local_index), sleeps_(sleeps) {}

  void add_progress(Progress* wire) { wires_.push_back(wire); }
  void remove_progress(Progress* wire) { std::erase(wires_, wire); }
  bool sleeps() const noexcept { return sleeps_; }
  const NodePage& page() const noexcept { return page_; }
  int local_index() const noexcept { return local_index_; }

  /// Polls `ready` (bool() noexcept, acquires what it reads) until true: ok, or timeout, peer_failed,
  /// aborted.
  template <typename Ready>
  Status until(const WaitNote& note, Ready&& ready, std::chrono::nanoseconds timeout) noexcept {
    // With a wire to drive, the very next step is to drive it: what is awaited may lie in a socket.
    const int polls = sleeps_ || !wires_.empty() ? 1 : quick_polls;
    for (int i = 0; i < polls; ++i) {
      if (ready()) return {};
      if (polls > 1) cpu_relax();
    }
    using Callable = std::remove_reference_t<Ready>;
    const auto call = [](void* context) noexcept -> bool { return (*static_cast<Callable*>(context))(); };
    return until_slowly(note, call, const_cast<std::remove_const_t<Callable>*>(&ready), timeout);
  }

  /// After something became visible to the rank at `local_index` of this node.
  void ring(int local_index) const noexcept {
    if (sleeps_ && someone_sleeps()) ring_now(local_index);
  }
  /// To ring several: one look for all of them.
  bool someone_sleeps() const noexcept {
    full_fence();  // the ringer's fence
    return page_.sleepers().load(std::memory_order_relaxed) != 0;
  }
  void ring_now(int local_index) const noexcept;

  /// After something became visible to the rank at `local_index` that belongs to what it has started.
  void nudge(int local_index) const noexcept {
    full_fence();
    Doorbell& door = page_.doorbell(local_index);
    // Relaxed: the fence orders it after the bytes; a stale value is covered by the argument above.
    if (door.wanted.load(std::memory_order_relaxed) == Doorbell::asked) nudge_now(door);
  }
  /// Whatever it says: to start it, or to end it.
  static void wake_background(Doorbell& door) noexcept;

 private:
  using ReadyFunction = bool (*)(void* context) noexcept;
  static constexpr int quick_polls = 2000;
  Status until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                      std::chrono::nanoseconds timeout) noexcept;
  bool sleep_on_bell(ReadyFunction ready, void* context) noexcept;
  static void nudge_now(Doorbell& door) noexcept;
  int drive_wires() noexcept;

  NodePage page_;
  int local_index_ = 0;
  bool sleeps_ = false;
  std::vector<Progress*> wires_;
};

}  // namespace hmc::base
