#include "runtime/transport/ucx/ucx_wire.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <mutex>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/ucx/library.hpp"

namespace hmc::transport {

namespace ucx {

using am::MessageKind;

/// Access to a region of one peer, on a wire with one-sided verbs.
class UcxWire::Channel final : public AmWire::Channel {
 public:
  /// `base`: the region's address at the peer. `key`: of its memory, for RemoteMemory; empty: all verbs are messages.
  Channel(UcxWire& wire, int peer, const am::Regions::Key& region, std::uint64_t base, base::ByteView key)
      : AmWire::Channel(wire, peer, region), wire_(wire), base_(base), key_(key.begin(), key.end()) {}
  ~Channel() override {
    const std::lock_guard guard(wire_.lock_);
    abandon_all();  // before their key ends
    if (memory_ != 0) wire_.memory_->close(peer, memory_);
  }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    const std::lock_guard guard(wire_.lock_);
    if (const base::Status status = begin(); !status.ok()) return status;
    return memory_ != 0 ? wire_.move(MessageKind::put, *this, base_ + offset, source, bytes, ticket)
                        : send_put(offset, source, bytes, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    const std::lock_guard guard(wire_.lock_);
    if (const base::Status status = begin(); !status.ok()) return status;
    return memory_ != 0 ? wire_.move(MessageKind::get, *this, base_ + offset, destination, bytes, ticket)
                        : send_get(offset, destination, bytes, ticket);
  }
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    return put_and_signal(MessageKind::put_signal, offset, source, bytes, signal_offset, value, ticket);
  }
  base::Status notify(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                      std::uint64_t value, Ticket& ticket) noexcept override {
    return put_and_signal(MessageKind::notice, offset, source, bytes, signal_offset, value, ticket);
  }
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override {
    ticket = done;
    const std::lock_guard guard(wire_.lock_);
    if (const base::Status status = wire_.before_message(peer); !status.ok()) return status;
    return send_atomic(atomic, offset, result, ticket);
  }

  std::uint64_t memory() const noexcept { return memory_; }

 private:
  /// Before a put or get: chooses its kind, by memory_, and orders it. Under the lock.
  base::Status begin() noexcept {
    if (memory_ == 0 && !key_.empty()) [[unlikely]] {
      if (const base::Status status = wire_.peers_.ready(wire_.peers_.at(peer)); !status.ok()) return status;
      memory_ = wire_.memory_->open(peer, key_);
      if (memory_ == 0) {
        wire_.options_.log.info("{}: verbs to rank {} are messages: its memory can't be accessed otherwise",
                                wire_.name(), peer);
        key_.clear();
      }
    }
    if (memory_ == 0) return wire_.before_message(peer);
    // An access to a region that the peer has ended could fail the whole connection.
    if (const base::Status status = wire_.ready(*this); !status.ok()) return status;
    return wire_.before_move(peer);
  }
  /// One-sided, the signal is a put of its own, behind a fence. `kind`: of the message otherwise.
  base::Status put_and_signal(MessageKind kind, std::uint64_t offset, const void* source, std::size_t bytes,
                              std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
    ticket = done;
    const std::lock_guard guard(wire_.lock_);
    base::Status status = begin();
    if (!status.ok()) return status;
    if (memory_ == 0) return send_signal(kind, offset, source, bytes, signal_offset, value, ticket);
    if (bytes > 0) {
      status = wire_.move(MessageKind::put, *this, base_ + offset, source, bytes, ticket);
      wire_.memory_->fence();
    }
    Ticket unused = done;
    if (status.ok()) status = wire_.move(MessageKind::put, *this, base_ + signal_offset, &value, sizeof value, unused);
    return status;
  }

  UcxWire& wire_;
  const std::uint64_t base_;
  base::Bytes key_;           // cleared if it can't be opened
  std::uint64_t memory_ = 0;  // the number of RemoteMemory::open(); 0: not opened yet, or verbs are messages
};

UcxWire::UcxWire(const am::Options& options, UcxLink& link, std::unique_ptr<UcxLink>&& owner)
    : AmWire(options, std::move(owner)),
      ucx_(link),
      memory_(link.memory()),
      orders_(static_cast<std::size_t>(options.size)) {}

Capabilities UcxWire::capabilities() const noexcept {
  Capabilities capabilities = AmWire::capabilities();
  capabilities.one_sided = memory_ != nullptr;
  return capabilities;
}

void UcxWire::remove_peer(int number) noexcept {
  AmWire::remove_peer(number);
  const std::lock_guard guard(lock_);
  // As the wire of messages: a number whose verbs are still in flight stays failed, and keeps their counts.
  if (number >= peers_.count() || peers_.at(number).in_flight > 0) return;
  UcxLink::Peer& peer = ucx_.peer(number);
  peer.moved = peer.flushed = 0;
  order_of(number) = {};
}

base::Bytes UcxWire::register_region(const Region& mine) {
  const base::Bytes messages = AmWire::register_region(mine);
  const std::lock_guard guard(lock_);
  base::ByteWriter key;
  key.raw(messages).number(reinterpret_cast<std::uint64_t>(mine.base));
  key.blob(memory_ != nullptr && mine.bytes > 0 ? memory_->add(mine.base, mine.bytes) : base::Bytes{});
  return key.take();
}

std::unique_ptr<am::AmWire::Channel> UcxWire::make_channel(int peer, base::ByteReader& key) {
  const am::Regions::Key region = read_region(key);
  const auto base = key.number<std::uint64_t>();
  const base::ByteView memory = key.blob();
  if (memory_ == nullptr) return std::make_unique<AmWire::Channel>(*this, peer, region);
  // Also to a peer without such memory: its windows may have different kinds, and a fence orders the verbs to a rank.
  return std::make_unique<Channel>(*this, peer, region, base, memory);
}

void UcxWire::deregister_region(const Region& mine) noexcept {
  if (memory_ != nullptr) {
    const std::lock_guard guard(lock_);
    memory_->remove(mine.base, mine.bytes);
  }
  AmWire::deregister_region(mine);
}

bool UcxWire::receive_into(const Region& mine, DirectReceive& receive) noexcept {
  return memory_ == nullptr && AmWire::receive_into(mine, receive);  // one-sided puts write to the region itself
}

base::Status UcxWire::fence() noexcept {
  if (memory_ == nullptr) return {};
  const std::lock_guard guard(lock_);
  ++fences_;
  return {};
}

base::Status UcxWire::before_move(int peer) noexcept {
  if (has_messages(peer) && order_of(peer).messages < fences_)
    if (const base::Status status = settle(peer); !status.ok()) return status;
  if (!has_moves(peer)) order_of(peer).moves = fences_;
  if (ordered_ != fences_) {
    memory_->fence();
    ordered_ = fences_;
  }
  return {};
}

base::Status UcxWire::before_message(int peer) noexcept {
  if (has_moves(peer) && order_of(peer).moves < fences_)
    if (const base::Status status = settle(peer); !status.ok()) return status;
  if (!has_messages(peer)) order_of(peer).messages = fences_;
  return {};
}

base::Status UcxWire::settle(int peer) noexcept {
  Ticket ticket = done;
  if (const base::Status status = flush_all(peer, peer + 1, ticket); !status.ok()) return status;
  base::Status status;
  for (unsigned rounds = 1; status.ok() && tickets_.find(ticket) != nullptr; ++rounds) {
    if (progress_locked() > 0) continue;
    if (rounds % 64 != 0) {
      base::cpu_relax();
      continue;
    }
    ::sched_yield();
    if (options_.waiter != nullptr) status = options_.waiter->page().aborted();
  }
  tickets_.release(ticket);  // a failed one
  const base::Status& failure = peers_.at(peer).failure;
  return failure.ok() ? status : failure;
}

base::Status UcxWire::flush(int peer, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  relieve();
  if (peer >= 0) return flush_all(peer, peer + 1, ticket);
  return flush_all(0, peers_.count(), ticket);
}

/// One ticket for the answers of messages and for UCX's flushes.
base::Status UcxWire::flush_all(int first, int last, Ticket& ticket) noexcept {
  std::uint64_t count = 0;
  for (int peer = first; peer < last; ++peer) count += has_moves(peer) ? 1U : 0U;
  if (const base::Status status = start_flush(first, last, count, ticket); !status.ok() || count == 0) return status;
  const Ticket opened = std::exchange(ticket, done);
  for (int peer = first; peer < last; ++peer) {
    if (!has_moves(peer)) continue;
    am::Message flush;
    flush.kind = MessageKind::flush;
    flush.first = ucx_.peer(peer).moved;
    const base::Status status = peers_.start(peers_.at(peer), flush, nullptr, 0, opened,
                                             [&](am::Sending& record) { return memory_->move(record); });
    if (status.ok()) continue;
    tickets_.release(opened);
    return status;
  }
  if (tickets_.known(opened) != nullptr) ticket = opened;
  return {};
}

base::Status UcxWire::move(MessageKind kind, const Channel& to, std::uint64_t address, const void* local,
                           std::uint64_t bytes, Ticket& ticket) noexcept {
  am::Message verb;
  verb.kind = kind;
  verb.region = to.memory();
  verb.offset = address;
  Ticket opened = done;
  if (kind == MessageKind::get || bytes > am::inline_bytes) {
    opened = tickets_.open({.peer = to.peer, .left = 1, .channel = &to});
    if (opened == done) return base::Status::failure(Code::out_of_memory, "no memory for a transfer", to.peer);
  }
  const base::Status status = peers_.start(peers_.at(to.peer), verb, local, bytes, opened,
                                           [&](am::Sending& record) { return memory_->move(record); });
  if (!status.ok())
    tickets_.release(opened);
  else if (tickets_.find(opened) != nullptr)
    ticket = opened;
  return status;
}

}  // namespace ucx

std::unique_ptr<am::AmWire> make_ucx_wire(const am::Options& options, const std::string& transports) {
  return std::make_unique<ucx::UcxWire>(options, std::make_unique<ucx::UcxLink>(options.size, transports, options.log));
}

std::unique_ptr<Wire> make_ucx_wire(const WireContext& context) {
  return make_ucx_wire(am::options_of(context), context.one_machine ? "^sm" : "");
}

std::string ucx_description() { return ucx::Library::describe(); }

}  // namespace hmc::transport
