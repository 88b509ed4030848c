// Background: a thread of a Runtime that goes on with what its rank has started, while the rank computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/wait.hpp"

namespace hmc::window {

struct Fabric;

/// What goes on by itself once it is started: a team's non-blocking collectives.
class Started {
 public:
  enum class By { owner, thread };
  /// Takes what is under way as far as it goes; how many steps that were. Never waits. Under Background's lock.
  virtual int step(By who) noexcept = 0;
  /// Something is under way that the thread may step.
  virtual bool goes_on() const noexcept = 0;
  /// Something is under way that waits for a device, which nudges nobody.
  virtual bool waits_for_stream() const noexcept = 0;
  /// The Runtime goes: nothing of the caller's is read or written any more. Unregisters itself.
  virtual void end() noexcept = 0;

 protected:
  ~Started() = default;
};

/// The thread is made when something is first left under way, and ends with the Runtime. It sleeps on a futex in the
/// node's page until it is nudged (see Waiter): by the rank of this node whose bytes arrive, or by whoever has driven
/// the network here and found something. Besides it looks by itself, from every millisecond to every 50 (8 in prompt
/// mode), for what nobody nudges of: an owner that went away in prompt mode, a deadline's questions; nothing under way,
/// and it sleeps on. While something waits for a device's stream it looks far more often.
///
/// One lock over all that is started (the teams' state, while they are registered). The owner takes it in calls that
/// are about that, and in nothing else: a program that has nothing under way never takes it. The thread only tries
/// it, holds it for one round of steps, and leaves all to an owner that waits.
///
/// A caller that waits at once must not pay for a thread that it doesn't need, so there are two modes. While calls
/// follow each other at once (prompt) nothing is asked of anybody, and the thread only looks now and then whether the
/// owner still calls. Else the owner asks for nudges whenever it leaves something under way. It begins so. A few starts
/// in a row that are asked for at once make it prompt; something under way while the owner computes ends that.
///
/// Threads: the owner (one thread at a time), but for what says otherwise.
class Background {
 public:
  explicit Background(Fabric& fabric) noexcept : fabric_(fabric) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// HMC_PROGRESS: without the thread nothing here costs anything.
  void allow(bool allowed) noexcept { allowed_ = allowed; }
  bool allowed() const noexcept { return allowed_; }
  bool is_running() const noexcept { return thread_.joinable(); }
  /// False where there is to be no thread, or none can be had.
  bool begin() noexcept { return is_running() || begin_thread(); }
  /// What a call of the owner's is about. Only one that asks for what has just been started says that the owner doesn't
  /// compute meanwhile; several starts in a row, or a blocking collective in between, say nothing.
  enum class Call { starts, asks, blocks };
  /// What is under way is then the owner's alone.
  void stop() noexcept;
  /// After it: whose Runtime goes may free its buffers.
  void end_all() noexcept;

  std::mutex& lock() noexcept { return lock_; }
  /// Under the lock. May throw bad_alloc.
  void add(Started& started) { started_.push_back(&started); }
  void remove(Started& started) noexcept { std::erase(started_, &started); }

  /// The owner is in a wait: it looks by itself.
  class Waiting;
  /// The owner is in a short call about something that is started.
  class Visit;

 private:
  enum class Found { nothing, nothing_for_long, only_streams, in_the_way, wait_a_bit, moved };
  void enter(Call call) noexcept;
  void leave() noexcept;
  void take_over(Call call) noexcept;
  void judge(Call call, std::int64_t away) noexcept;
  /// Under the lock, when the owner goes.
  void settle() noexcept;
  bool begin_thread() noexcept;
  void unpark() noexcept;
  bool something_goes_on() const noexcept;
  bool something_waits_for_a_stream() const noexcept;
  int step_all(Started::By who) noexcept;
  void ask() noexcept;
  void quiet() noexcept;

  // the thread's
  void run() noexcept;
  Found look() noexcept;
  Found serve() noexcept;
  void sleep(std::uint32_t nudges, std::int64_t span_ns) const noexcept;

  Fabric& fabric_;
  base::Doorbell* door_ = nullptr;
  bool allowed_ = false;
  std::mutex lock_;
  std::vector<Started*> started_;  // changed by the owner, under the lock
  bool parked_ = false;            // the thread sleeps until it is woken; under the lock

  // The owner's; the thread only reads these, as hints. Relaxed: no data hangs on them, and a wrong answer costs a
  // look too many, or one that comes with the next tick. That an owner has left is seen by who is nudged afterwards: it
  // says so before it asks (release), and the nudge hands that on.
  std::atomic<bool> inside_{false};
  std::atomic<std::uint64_t> entries_{0};
  std::atomic<std::int64_t> left_at_ns_{0};  // with something under way; 0: it is in a call, or nothing is
  /// Both write it: the owner sets it, and either takes it back. Relaxed: see above.
  std::atomic<bool> prompt_{false};
  int depth_ = 0;
  int prompt_votes_ = 0;
  bool has_just_started_ = false;

  // the thread's
  std::uint64_t entries_seen_ = 0;
  bool awake_ = false;
  int idle_rounds_ = 0;
  int idle_ticks_ = 0;

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class Background::Waiting {
 public:
  explicit Waiting(Background& background, Call call = Call::asks) noexcept : background_(background) {
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
  /// `shared`: the thread may be in there too; else there is nothing to lock. One that asks only tries, and if it fails
  /// is as if it had not been: the thread is at work, and asks for itself.
  Visit(Background& background, bool shared, Call call) noexcept : background_(background) {
    if (!shared || !background.allowed_) return;
    held_ =
        call == Call::asks ? std::unique_lock(background.lock_, std::try_to_lock) : std::unique_lock(background.lock_);
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

}  // namespace hmc::window
