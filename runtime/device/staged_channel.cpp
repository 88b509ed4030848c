#include "runtime/device/staged_channel.hpp"

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
#include <exception>
#include <optional>
#include <system_error>

#include <hmc/error.hpp>

#include "runtime/base/fences.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::device {

using base::Status;
using transport::Ticket;

/// Waits until the wire no longer accesses this rank's memory. If the verb couldn't be started, returns that failure.
Status StagedChannel::over(const Status& started, Ticket ticket) noexcept {
  return started.ok() ? fabric_.tickets.finish(wire_, ticket, note(), fabric_.timeout) : started;
}

/// Leases a Stage if a wire, and not load and store, moves the bytes of a local device buffer.
Status StagedChannel::lease(const memory::Owner& owner, memory::StageLease& stage) noexcept {
  if (control_ != nullptr || memory::is_host_accessible(owner)) return {};
  try {
    stage = memory::StageLease(*owner.provider, owner.info.device);
    return {};
  } catch (const Error& error) {
    std::strncpy(text_, error.detail().message.c_str(), sizeof text_ - 1);
    return Status::failure(error.code(), text_, peer_);
  } catch (const std::exception&) {
    return Status::failure(Code::out_of_memory, "no memory to stage a transfer", peer_);
  }
}

/// Copies the bytes of the next command to its buffer.
Status StagedChannel::fill(const std::byte* source, std::size_t bytes, const memory::Owner& owner,
                           memory::OutPieces* pieces) noexcept {
  if (bytes == 0) return {};
  const std::uint64_t buffer = shape_.buffer(fabric_.rank, issued_ + 1);
  const memory::Owner host = memory::host_owner();
  if (control_ != nullptr) return memory::copy_between(control_ + buffer, host, source, owner, bytes);
  if (pieces != nullptr)
    if (const Status status = pieces->next(source); !status.ok()) return status;
  Ticket ticket = transport::done;
  const Status started = way_->put(buffer, source, bytes, ticket);
  return over(started, ticket);
}

/// Copies the bytes that command `number` has read from its buffer to the destination.
Status StagedChannel::empty(std::uint64_t number, std::byte* destination, std::size_t bytes, const memory::Owner& owner,
                            memory::InPieces* pieces) noexcept {
  const std::uint64_t buffer = shape_.buffer(fabric_.rank, number);
  const memory::Owner host = memory::host_owner();
  if (control_ != nullptr) return memory::copy_between(destination, owner, control_ + buffer, host, bytes);
  std::byte* to = destination;
  if (pieces != nullptr)
    if (const Status status = pieces->room(to); !status.ok()) return status;
  Ticket ticket = transport::done;
  const Status started = way_->get(buffer, to, bytes, ticket);
  const Status status = over(started, ticket);
  return status.ok() && pieces != nullptr ? pieces->filled() : status;
}

Status StagedChannel::post(const Command& command) noexcept {
  const std::uint64_t number = ++issued_;
  // Order the command after its bytes, which an earlier put sent.
  if (const Status status = wire().fence(); !status.ok()) return status;
  Ticket ticket = transport::done;
  const Status started = way_->put_signal(shape_.command(fabric_.rank, number), &command, sizeof command,
                                          shape_.posted(fabric_.rank), number, ticket);
  const Status status = over(started, ticket);
  if (control_ != nullptr) wake_agent(head_of(control_));
  return status;
}

/// Polls the peer's word `finished` once. Returns true if `seen` has a value or `status` a failure. Over a wire the
/// read is a get; `asked` is its ticket while it is in flight.
bool StagedChannel::look(std::uint64_t& seen, Ticket& asked, Status& status) noexcept {
  if (control_ != nullptr) {
    auto& word = reinterpret_cast<Lane*>(control_ + shape_.lane(fabric_.rank))->finished;
    seen = word.load(std::memory_order_acquire);  // pairs with the agent's release, after the bytes and the reply
    return true;
  }
  if (asked == transport::done) {
    status = way_->get(shape_.finished(fabric_.rank), &seen, sizeof seen, asked);
    if (!status.ok() || asked == transport::done) return true;
  }
  status = wire().test(asked);
  if (status.code == Code::in_progress) {
    status = {};
    return false;
  }
  asked = transport::done;
  return true;
}

Status StagedChannel::await(std::uint64_t number) noexcept {
  if (number == 0 || number > issued_) return {};
  Status status;
  std::uint64_t seen = 0;
  Ticket asked = transport::done;
  const auto ready = [&]() noexcept { return look(seen, asked, status) && (!status.ok() || seen / 2 >= number); };
  const Status waited = fabric_.waiter.until(note(), ready, fabric_.timeout);
  if (!waited.ok()) {
    if (asked != transport::done) wire().abandon(asked);  // otherwise the get would write `seen` after the return
    return waited;
  }
  if (!status.ok()) return status;
  // Until the agent executes this verb's first command, the word may show the failure of an earlier verb.
  if (seen % 2 == 0 || seen / 2 < verb_first_) return {};
  Reply reply;
  if (const Status got = read_reply(reply); !got.ok()) return got;
  std::memcpy(text_, reply.text, sizeof text_ - 1);
  return Status::failure(static_cast<Code>(reply.code), text_, peer_);
}

Status StagedChannel::read_reply(Reply& reply) noexcept {
  Ticket ticket = transport::done;
  const Status started = way_->get(shape_.reply(fabric_.rank), &reply, sizeof reply, ticket);
  return over(started, ticket);
}

/// Sends the bytes in pieces. `last`: the command for the last piece, with the signal that follows the bytes, if any.
Status StagedChannel::send(std::uint64_t offset, const std::byte* source, std::size_t bytes,
                           const Command& last) noexcept {
  const memory::Owner owner = memory::known_owner_of(source);
  memory::StageLease stage;
  if (const Status status = lease(owner, stage); !status.ok()) return status;
  std::optional<memory::OutPieces> pieces;
  if (stage) pieces.emplace(*stage, source, bytes, shape_.chunk());
  std::size_t sent = 0;
  verb_first_ = issued_ + 1;
  do {
    const std::size_t now = std::min(bytes - sent, shape_.chunk());
    if (const Status status = await(issued_ - std::min<std::uint64_t>(issued_, Lane::slots - 1)); !status.ok())
      return status;
    if (const Status status = fill(source + sent, now, owner, pieces ? &*pieces : nullptr); !status.ok()) return status;
    Command command = sent + now == bytes ? last : Command{};
    command.first = sent == 0 ? 1 : 0;
    command.offset = offset + sent;
    command.bytes = now;
    if (const Status status = post(command); !status.ok()) return status;
    sent += now;
  } while (sent < bytes);
  return await(issued_);
}

Status StagedChannel::put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = transport::done;
  return bytes == 0 ? Status{} : send(offset, static_cast<const std::byte*>(source), bytes, {});
}

Status StagedChannel::put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                 std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = transport::done;
  Command last;
  last.signals = 1;
  last.signal_offset = signal_offset;
  last.value = value;
  return send(bytes > 0 ? offset : 0, static_cast<const std::byte*>(source), bytes, last);
}

Status StagedChannel::get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = transport::done;
  const memory::Owner owner = memory::known_owner_of(destination);
  memory::StageLease stage;
  if (const Status status = lease(owner, stage); !status.ok()) return status;
  std::optional<memory::InPieces> in;
  if (stage) in.emplace(*stage, destination, bytes, shape_.chunk());
  verb_first_ = issued_ + 1;
  const std::uint64_t before = issued_;
  const std::uint64_t pieces = (bytes + shape_.chunk() - 1) / shape_.chunk();
  // Commands of an earlier verb that timed out may still be pending, and write to these buffers.
  if (const Status status = await(issued_); !status.ok()) return status;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    for (; issued_ - before < std::min<std::uint64_t>(pieces, piece + Lane::slots);) {
      Command command;
      command.verb = DeviceVerb::get;
      command.first = issued_ == before ? 1 : 0;
      command.offset = offset + (issued_ - before) * shape_.chunk();
      command.bytes = std::min<std::uint64_t>(shape_.chunk(), offset + bytes - command.offset);
      if (const Status status = post(command); !status.ok()) return status;
    }
    const std::uint64_t done = piece * shape_.chunk();
    const std::size_t now = std::min<std::size_t>(shape_.chunk(), bytes - done);
    if (const Status status = await(before + piece + 1); !status.ok()) return status;
    if (const Status status =
            empty(before + piece + 1, static_cast<std::byte*>(destination) + done, now, owner, in ? &*in : nullptr);
        !status.ok())
      return status;
  }
  return in ? in->finish() : Status{};
}

Status StagedChannel::atomic(const transport::Atomic& atomic, std::uint64_t offset, void* result,
                             Ticket& ticket) noexcept {
  ticket = transport::done;
  verb_first_ = issued_ + 1;
  if (const Status status = await(issued_); !status.ok()) return status;
  Command command;
  command.verb = DeviceVerb::atomic;
  command.first = 1;
  command.op = static_cast<std::uint8_t>(atomic.op);
  command.width = atomic.width;
  command.offset = offset;
  command.value = atomic.operand;
  command.compare = atomic.compare;
  if (const Status status = post(command); !status.ok()) return status;
  if (const Status status = await(issued_); !status.ok()) return status;
  if (result == nullptr || !transport::returns_value(atomic.op)) return {};
  Reply reply;
  if (const Status status = read_reply(reply); !status.ok()) return status;
  std::memcpy(result, &reply.result, atomic.width);
  return {};
}

Status StagedChannel::put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept {
  Ticket ticket = transport::done;
  for (std::size_t row = 0; row < strides.rows; ++row)
    if (const Status status =
            put(offset + row * strides.remote_pitch, static_cast<const std::byte*>(source) + row * strides.local_pitch,
                strides.row_bytes, ticket);
        !status.ok())
      return status;
  return {};
}

Status StagedChannel::get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept {
  Ticket ticket = transport::done;
  for (std::size_t row = 0; row < strides.rows; ++row)
    if (const Status status =
            get(offset + row * strides.remote_pitch, static_cast<std::byte*>(destination) + row * strides.local_pitch,
                strides.row_bytes, ticket);
        !status.ok())
      return status;
  return {};
}

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

Agent::Agent(const rma::Fabric& fabric, const DeviceMemory& memory, std::byte* control, bool far_origins)
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
      Reply reply;
      const Status status = carry_out(rank, number, command, reply);
      reply.code = static_cast<std::uint32_t>(status.code);
      if (!status.ok() && status.what != nullptr) std::strncpy(reply.text, status.what, sizeof reply.text - 1);
      if (!status.ok() || command.verb == DeviceVerb::atomic) mine.reply = reply;
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
Status Agent::carry_out(int rank, std::uint64_t number, const Command& command, Reply& reply) noexcept {
  const Status beyond = Status::failure(Code::out_of_range, "the peer's agent was asked for bytes beyond its memory");
  std::byte* const buffer = control_ + shape_.buffer(rank, number);
  if (command.verb == DeviceVerb::atomic) return atomic(command, reply);
  if (command.bytes > shape_.chunk() || !inside(command.offset, command.bytes)) return beyond;
  if (command.verb == DeviceVerb::get) return memory_.read_to_host(command.offset, buffer, command.bytes);
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

Status Agent::atomic(const Command& command, Reply& reply) noexcept {
  if ((command.width != 4 && command.width != 8) || command.offset % command.width != 0 ||
      !inside(command.offset, command.width) || command.op > static_cast<std::uint8_t>(transport::AtomicOp::fetch_xor))
    return Status::failure(Code::out_of_range, "the peer's agent was asked for a word beyond its memory");
  if (!lock()) return Status::failure(Code::timeout, "the peer's agent waited in vain for its memory's lock");
  const transport::Atomic asked{static_cast<transport::AtomicOp>(command.op), command.width, command.value,
                                command.compare};
  const Status status = memory_.apply(asked, command.offset, reply.result);
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

}  // namespace hmc::device
