// Background: the background thread of a Runtime. It progresses the rank's started operations while the rank computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/progress/tickets.hpp"

namespace hmc::progress {

/// Operations that progress without further calls after their start: a team's non-blocking collectives.
class Started {
 public:
  enum class By { owner, thread };
  /// Executes all steps that are ready and returns their number. Never waits. Caller holds Background's lock.
  virtual int step(By who) noexcept = 0;
  /// True if an operation is in flight that the thread may step.
  virtual bool goes_on() const noexcept = 0;
  /// True if an operation in flight waits for a device's stream. A device doesn't nudge.
  virtual bool waits_for_stream() const noexcept = 0;
  /// Called when the Runtime closes. On return the operations no longer access the caller's memory. Unregisters itself.
  virtual void end() noexcept = 0;

 protected:
  ~Started() = default;
};

/// The thread starts when a call first returns with an operation in flight, and ends with the Runtime. It sleeps on a
/// futex in the node page until a nudge (nudge.hpp). A nudge comes from:
/// - a rank of this node that has stored bytes for an operation of this rank;
/// - a thread of this process that has progressed a wire and received a message for such an operation.
///
/// The thread also polls, at intervals from 1 ms to 50 ms (2 ms in prompt mode), for events without a nudge: an owner
/// that stops calling in prompt mode, and queries at a deadline. With nothing in flight it stops polling. While an
/// operation waits for a device's stream it polls far more often.
///
/// One lock protects all started operations (the teams' state, while they are registered). The owner takes it only in
/// calls about these operations, so a program with no operation in flight never takes it. The thread only tries the
/// lock, holds it for one round of steps, and does no step while the owner waits.
///
/// A caller that starts an operation and waits for it at once must not pay for the thread, so there are two modes.
/// - Normal, the initial mode if a core is free: the owner requests nudges whenever it leaves an operation in flight.
/// - Prompt, while calls follow each other at once: the owner requests no nudges, and the thread only polls whether the
///   owner still makes calls.
/// Several consecutive starts, each followed at once by a wait, select prompt mode. An operation in flight while the
/// owner computes ends prompt mode.
///
/// If no core is free, prompt mode is the only one: a nudged thread would interrupt the owner's computation at each
/// step, and the steps take the same time in the owner's next wait. The thread executes steps if the owner makes no
/// call for a millisecond. It then requests nudges, until the next call.
///
/// Threads: the owner (one thread at a time), unless stated otherwise.
class Background {
 public:
  /// The arguments outlive it.
  Background(base::Waiter& waiter, const Tickets& tickets, const base::Log& log) noexcept
      : waiter_(waiter), tickets_(tickets), log_(log) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `allowed`: HMC_PROGRESS. If false, this class adds no cost to any call. `has_free_core`: the thread can run while
  /// the owner computes.
  void allow(bool allowed, bool has_free_core) noexcept {
    allowed_ = allowed;
    has_free_core_ = has_free_core;
  }
  bool allowed() const noexcept { return allowed_; }
  bool is_running() const noexcept { return thread_.joinable(); }
  /// False if the thread isn't allowed or can't be created.
  bool begin() noexcept;
  /// The kind of a call by the owner: it starts an operation, tests or waits for an operation, or blocks in a
  /// collective. Only a test or wait directly after a start indicates that the owner doesn't compute meanwhile. Several
  /// consecutive starts, or a blocking collective in between, don't count.
  enum class Entry { starts, asks, blocks };
  /// Joins the thread. Afterwards only the owner steps operations in flight.
  void stop() noexcept;
  /// After stop(): ends all started operations, so the user may free their buffers.
  void end_all() noexcept;

  std::mutex& lock() noexcept { return lock_; }
  /// The caller holds the lock. May throw bad_alloc.
  void add(Started& started) { started_.push_back(&started); }
  void remove(Started& started) noexcept { std::erase(started_, &started); }

  /// Scope of a wait in which the owner steps its operations itself.
  class Waiting;
  /// Scope of a short call of the owner about a started operation.
  class Visit;

 private:
  enum class Found { nothing, nothing_for_long, only_streams, lock_busy, wait_a_bit, moved };
  void enter(Entry call) noexcept;
  void leave() noexcept;
  void take_over(Entry call) noexcept;
  /// Called at the end of the owner's call, which holds the lock.
  void settle() noexcept;
  bool is_prompt() const noexcept { return !has_free_core_ || prompt_.load(std::memory_order_relaxed); }
  bool something_goes_on() const noexcept;
  bool something_waits_for_a_stream() const noexcept;
  int step_all(Started::By who) noexcept;
  void ask() noexcept;
  void quiet() noexcept;

  // ---- called by the thread
  void run() noexcept;
  Found look() noexcept;
  void sleep(std::uint32_t nudges, std::int64_t span_ns) const noexcept;

  base::Waiter& waiter_;
  const Tickets& tickets_;
  const base::Log& log_;
  base::Doorbell* door_ = nullptr;
  bool allowed_ = false;
  bool has_free_core_ = true;
  std::mutex lock_;
  std::vector<Started*> started_;  // modified only by the owner, under the lock
  bool parked_ = false;            // the thread sleeps without a timeout; under the lock

  // Written by the owner; the thread reads them as hints. Relaxed: they publish no data. A stale value costs one extra
  // poll, or delays one poll to the next tick. A nudged thread always sees that the owner has left its call: the owner
  // clears `inside_` before it stores `asked` (release); the nudge acquires that store and releases it to the thread.
  std::atomic<bool> inside_{false};
  std::atomic<std::uint64_t> entries_{0};
  std::atomic<std::int64_t> left_at_ns_{0};  // end of the last call; 0: in a call, or nothing is in flight
  /// The owner sets it; the owner and the thread clear it. Relaxed: see above.
  std::atomic<bool> prompt_{false};
  int depth_ = 0;
  int prompt_votes_ = 0;
  bool has_just_started_ = false;

  // used by the thread only
  std::uint64_t entries_seen_ = 0;
  bool awake_ = false;
  int idle_rounds_ = 0;
  int idle_ticks_ = 0;

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class Background::Waiting {
 public:
  explicit Waiting(Background& background, Entry call = Entry::asks) noexcept : background_(background) {
    background_.enter(call);
  }
  ~Waiting() { background_.leave(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Background& background_;
};

class Background::Visit {
 public:
  /// `shared`: the thread may access the same state; otherwise the lock isn't taken. A call that tests (Entry::asks)
  /// only tries the lock. If that fails, the visit has no effect: the thread executes steps, and requests nudges
  /// itself.
  Visit(Background& background, bool shared, Entry call) noexcept : background_(background) {
    if (!shared || !background.allowed_) return;
    held_ =
        call == Entry::asks ? std::unique_lock(background.lock_, std::try_to_lock) : std::unique_lock(background.lock_);
    is_in_ = held_.owns_lock();
    if (is_in_ && background_.depth_++ == 0) background_.take_over(call);
  }
  ~Visit() {
    if (held_.owns_lock() && --background_.depth_ == 0) background_.settle();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  explicit operator bool() const noexcept { return is_in_; }

 private:
  Background& background_;
  bool is_in_ = true;
  std::unique_lock<std::mutex> held_;
};

}  // namespace hmc::progress
