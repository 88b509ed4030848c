#include "runtime/device/agent.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <system_error>

#include "runtime/base/fences.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::rma {

using base::Status;

namespace {

constexpr int quick_yields = 50;
// Clients on other nodes can't wake the agent. With such clients the agent's sleeps grow from the first to the longest
// while no command arrives.
constexpr long first_agent_nap_ns = 30'000;
constexpr long longest_agent_nap_ns = 1'000'000;
constexpr long longest_sleep_ns = 50'000'000;  // largest delay if a wake-up is lost

/// The thread blocks all signals, so the application's threads handle them.
std::thread start_without_signals(void (*run)(void*), void* argument) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(run, argument);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    base::throw_no_thread("the thread of a device window", error);
  }
}

}  // namespace

// The origin posts its command, executes a full fence, and loads `asleep`. The agent stores `asleep`, executes a full
// fence, and checks the lanes again. One of the fences is first, so either the origin sees `asleep` or the agent sees
// the command.
void wake_agent(ControlHead& head) noexcept {
  base::full_fence();
  if (head.asleep.load(std::memory_order_relaxed) == 0) return;
  head.bell.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &head.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Agent::Agent(const Fabric& fabric, const DeviceMemory& memory, std::byte* control, bool far_origins)
    : fabric_(fabric),
      memory_(memory),
      control_(control),
      head_(head_of(control)),
      shape_(fabric.size),
      far_origins_(far_origins),
      nap_ns_(first_agent_nap_ns),
      failed_(static_cast<std::size_t>(fabric.size)) {
  thread_ = start_without_signals([](void* self) { static_cast<Agent*>(self)->run(); }, this);
  ::pthread_setname_np(thread_.native_handle(), "hmc-device");
}

Agent::~Agent() {
  stopping_ = true;
  wake_agent(head_);
  thread_.join();
}

void Agent::run() noexcept {
  int idle = 0;
  while (!stopping_) {
    if (serve()) {
      idle = 0;
      nap_ns_ = first_agent_nap_ns;
    } else if (idle < quick_yields) {
      ++idle;
      ::sched_yield();
    } else {
      sleep();
    }
  }
}

bool Agent::is_idle() const noexcept {
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    const Lane& mine = lane(rank);
    if (mine.posted.load(std::memory_order_acquire) > mine.finished.load(std::memory_order_relaxed) / 2) return false;
  }
  return true;
}

void Agent::sleep() noexcept {
  const std::uint32_t bell = head_.bell.load(std::memory_order_acquire);
  head_.asleep.store(1, std::memory_order_relaxed);
  base::full_fence();
  if (is_idle() && !stopping_) {
    const timespec span{0, far_origins_ ? nap_ns_ : longest_sleep_ns};
    nap_ns_ = std::min(2 * nap_ns_, longest_agent_nap_ns);
    ::syscall(SYS_futex, &head_.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  head_.asleep.store(0, std::memory_order_relaxed);
}

bool Agent::serve() noexcept {
  bool any = false;
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    Lane& mine = lane(rank);
    const std::uint64_t done = mine.finished.load(std::memory_order_relaxed) / 2;  // only this thread writes it
    // Acquire: pairs with the release of the origin's put_signal, which follows the command and its bytes.
    if (mine.posted.load(std::memory_order_acquire) <= done) continue;
    const std::uint64_t number = done + 1;
    const Command command = mine.commands[number % Lane::slots];
    auto failed = failed_[static_cast<std::size_t>(rank)];
    if (command.first != 0) failed = false;
    if (!failed) {
      Answer answer;
      const Status status = carry_out(rank, number, command, answer);
      answer.code = static_cast<std::uint32_t>(status.code);
      if (!status.ok() && status.what != nullptr) std::strncpy(answer.text, status.what, sizeof answer.text - 1);
      if (!status.ok() || command.deed == DeviceVerb::atomic) mine.answer = answer;
      failed = !status.ok();
    }
    // Release: pairs with the acquire in StagedChannel::look. For an origin on another node the wire loads the word.
    mine.finished.store(number * 2 + (failed ? 1 : 0), std::memory_order_release);
    const int index = fabric_.peer(rank).local_index;
    if (index >= 0) fabric_.waiter.ring(index);  // origins on other nodes poll
    any = true;
  }
  return any;
}

bool Agent::inside(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return bytes <= memory_.bytes() && offset <= memory_.bytes() - bytes;
}

/// Validates `command`: a peer may have written arbitrary bytes.
Status Agent::carry_out(int rank, std::uint64_t number, const Command& command, Answer& answer) noexcept {
  const Status beyond = Status::failure(Code::out_of_range, "the peer's agent was asked for bytes beyond its memory");
  std::byte* const buffer = control_ + shape_.buffer(rank, number);
  if (command.deed == DeviceVerb::atomic) return atomic(command, answer);
  if (command.bytes > shape_.chunk() || !inside(command.offset, command.bytes)) return beyond;
  if (command.deed == DeviceVerb::get) return memory_.read_to_host(command.offset, buffer, command.bytes);
  if (command.signals != 0 && (command.signal_offset % 8 != 0 || !inside(command.signal_offset, 8))) return beyond;
  return put(command, buffer);
}

Status Agent::put(const Command& command, const std::byte* buffer) noexcept {
  Status status = memory_.write_from_host(command.offset, buffer, command.bytes);
  if (status.ok() && command.signals != 0) {
    if (!lock()) return Status::failure(Code::timeout, "the peer's agent waited in vain for its memory's lock");
    status = memory_.write_from_host(command.signal_offset, &command.value, sizeof command.value);
    unlock(head_);
  }
  changed();
  return status;
}

Status Agent::atomic(const Command& command, Answer& answer) noexcept {
  if ((command.width != 4 && command.width != 8) || command.offset % command.width != 0 ||
      !inside(command.offset, command.width) || command.op > static_cast<std::uint8_t>(transport::AtomicOp::fetch_xor))
    return Status::failure(Code::out_of_range, "the peer's agent was asked for a word beyond its memory");
  if (!lock()) return Status::failure(Code::timeout, "the peer's agent waited in vain for its memory's lock");
  const transport::Atomic asked{static_cast<transport::AtomicOp>(command.op), command.width, command.value,
                                command.compare};
  const Status status = memory_.apply(asked, command.offset, answer.result);
  unlock(head_);
  changed();
  return status;
}

bool Agent::lock() noexcept {
  const base::Deadline deadline = fabric_.deadline();
  while (!try_lock(head_, owner_agent)) {
    // The holder may have died without releasing the lock.
    if (stopping_ || !fabric_.waiter.page().aborted().ok() || deadline.expired()) return false;
    ::sched_yield();
  }
  return true;
}

void Agent::changed() noexcept {
  note_change(head_);
  fabric_.waiter.ring(fabric_.waiter.local_index());
}

}  // namespace hmc::rma
