// Waiter: how a rank waits, and how it is woken.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/base/deadline.hpp"
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

/// What a long wait says of itself in the rank's activity line.
struct WaitNote {
  Activity activity = Activity::computing;
  int peer = -1;
  std::uint64_t sequence = 0;
};

/// The wait ladder. First it polls with `pause`. Then every turn also drives the wires and, now and
/// then, looks at the abort word and the deadline, and the rank's line says what it waits for. Where
/// ranks outnumber cores (`sleeps`) it soon sleeps on its doorbell, and whoever makes something
/// visible to it rings; elsewhere nobody pays for bells.
///
/// The doorbell's argument. The sleeper does RMW(sleeping = 1), looks once more, and sleeps on the
/// bell value read before the RMW. The ringer makes its bytes visible (release), then does
/// RMW(sleeping += 0). Both are read-modify-writes of one word, so one comes first: if the sleeper's,
/// the ringer sees 1, raises the bell and wakes; if the ringer's, the sleeper's RMW reads from it,
/// acquires, and its last look sees the bytes. A bound on each sleep covers writers that don't ring
/// (a plain put, a user's own store).
///
/// Threads: `until` by the owner; `ring` by anybody on the node.
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
    for (int i = 0; i < quick_polls(); ++i) {
      if (ready()) return {};
      cpu_relax();
    }
    using Callable = std::remove_reference_t<Ready>;
    const auto call = [](void* context) noexcept -> bool { return (*static_cast<Callable*>(context))(); };
    return until_slowly(note, call, const_cast<std::remove_const_t<Callable>*>(&ready), timeout);
  }

  /// After something became visible to the rank at `local_index` of this node.
  void ring(int local_index) const noexcept {
    if (sleeps_) ring_now(local_index);
  }

 private:
  using ReadyFunction = bool (*)(void* context) noexcept;
  int quick_polls() const noexcept { return sleeps_ ? 40 : 2000; }
  Status until_slowly(const WaitNote& note, ReadyFunction ready, void* context,
                      std::chrono::nanoseconds timeout) noexcept;
  bool sleep_on_bell(ReadyFunction ready, void* context) noexcept;
  int drive_wires() noexcept;
  void ring_now(int local_index) const noexcept;

  NodePage page_;
  int local_index_ = 0;
  bool sleeps_ = false;
  std::vector<Progress*> wires_;
};

}  // namespace hmc::base
