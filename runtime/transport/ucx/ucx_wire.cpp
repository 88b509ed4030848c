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
class UcxWire::Channel final : public transport::Channel {
 public:
  /// `key`: of the region's memory, for RemoteMemory; empty: the peer has none, so that all verbs are messages.
  Channel(UcxWire& wire, int peer, std::uint64_t base, base::ByteView key, std::unique_ptr<transport::Channel> messages)
      : wire_(wire), peer_(peer), base_(base), key_(key.begin(), key.end()), messages_(std::move(messages)) {}
  ~Channel() override {
    const std::lock_guard guard(wire_.lock_);
    wire_.abandon_all(this);
    if (memory_ != 0) wire_.memory_->close(peer_, memory_);
  }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    {
      const std::lock_guard guard(wire_.lock_);
      if (const base::Status status = begin(); !status.ok()) return status;
      if (memory_ != 0) return wire_.move(MessageKind::put, *this, base_ + offset, source, bytes, ticket);
    }
    return messages_->put(offset, source, bytes, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    {
      const std::lock_guard guard(wire_.lock_);
      if (const base::Status status = begin(); !status.ok()) return status;
      if (memory_ != 0) return wire_.move(MessageKind::get, *this, base_ + offset, destination, bytes, ticket);
    }
    return messages_->get(offset, destination, bytes, ticket);
  }
  /// The signal is a put of its own, behind a fence.
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    ticket = done;
    {
      const std::lock_guard guard(wire_.lock_);
      base::Status status = begin();
      if (!status.ok()) return status;
      if (memory_ != 0) {
        if (bytes > 0) {
          status = wire_.move(MessageKind::put, *this, base_ + offset, source, bytes, ticket);
          wire_.memory_->fence();
        }
        Ticket unused = done;
        if (status.ok())
          status = wire_.move(MessageKind::put, *this, base_ + signal_offset, &value, sizeof value, unused);
        return status;
      }
    }
    return messages_->put_signal(offset, source, bytes, signal_offset, value, ticket);
  }
  base::Status notify(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                      std::uint64_t value, Ticket& ticket) noexcept override {
    if (!key_.empty()) return put_signal(offset, source, bytes, signal_offset, value, ticket);
    {
      const std::lock_guard guard(wire_.lock_);
      if (const base::Status status = wire_.before_message(peer_); !status.ok()) return status;
    }
    return messages_->notify(offset, source, bytes, signal_offset, value, ticket);
  }
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override {
    {
      const std::lock_guard guard(wire_.lock_);
      if (const base::Status status = wire_.before_message(peer_); !status.ok()) return status;
    }
    return messages_->atomic(atomic, offset, result, ticket);
  }

  std::uint64_t memory() const noexcept { return memory_; }
  int peer() const noexcept { return peer_; }

 private:
  /// Before a put or get: chooses its kind, by memory_, and orders it. Under the lock.
  base::Status begin() noexcept {
    if (memory_ == 0 && !key_.empty()) [[unlikely]] {
      if (const base::Status status = wire_.peers_.ready(wire_.peers_.at(peer_)); !status.ok()) return status;
      memory_ = wire_.memory_->open(peer_, key_);
      if (memory_ == 0) {
        wire_.options_.log.info("{}: verbs to rank {} are messages: its memory can't be accessed otherwise",
                                wire_.name(), peer_);
        key_.clear();
      }
    }
    return memory_ != 0 ? wire_.before_move(peer_) : wire_.before_message(peer_);
  }

  UcxWire& wire_;
  const int peer_;
  const std::uint64_t base_;  // the region's address at the peer
  base::Bytes key_;
  std::uint64_t memory_ = 0;  // the number of RemoteMemory::open(); 0: not opened yet, or verbs are messages
  const std::unique_ptr<transport::Channel> messages_;
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
  UcxLink::Peer& peer = ucx_.peer(number);
  peer.moved = peer.flushed = 0;
  order_of(number) = {};
}

base::Bytes UcxWire::register_region(const Region& mine) {
  const base::Bytes messages = AmWire::register_region(mine);
  const std::lock_guard guard(lock_);
  base::ByteWriter key;
  key.blob(messages).number(reinterpret_cast<std::uint64_t>(mine.base));
  key.blob(memory_ != nullptr && mine.bytes > 0 ? memory_->add(mine.base, mine.bytes) : base::Bytes{});
  return key.take();
}

std::vector<std::unique_ptr<transport::Channel>> UcxWire::connect(const Region& mine, std::span<const base::Bytes> keys,
                                                                  std::span<const int> peers, base::Deadline deadline) {
  struct Memory {
    std::uint64_t base;
    base::ByteView key;
  };
  std::vector<Memory> memories;
  std::vector<base::Bytes> of_messages(keys.size());
  for (const int peer : peers) {
    const auto rank = static_cast<std::size_t>(peer);
    base::ByteReader in(keys[rank]);
    const base::ByteView messages = in.blob();
    const auto base = in.number<std::uint64_t>();
    memories.push_back({base, in.blob()});
    if (!in.complete())
      throw Error(Code::refused, std::string(name()),
                  fmt::format("rank {} sent a memory key of {} bytes", peer, keys[rank].size()));
    of_messages[rank].assign(messages.begin(), messages.end());
  }
  auto channels = AmWire::connect(mine, of_messages, peers, deadline);
  if (memory_ == nullptr) return channels;
  // Also to a peer without such memory: its windows may have different kinds, and a fence orders the verbs to a rank.
  for (std::size_t i = 0; i < channels.size(); ++i)
    channels[i] = std::make_unique<Channel>(*this, peers[i], memories[i].base, memories[i].key, std::move(channels[i]));
  return channels;
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
  ++fences_;
  return {};
}

base::Status UcxWire::before_move(int peer) noexcept {
  relieve();
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
    opened = tickets_.open({.peer = to.peer(), .left = 1, .channel = &to});
    if (opened == done) return base::Status::failure(Code::out_of_memory, "no memory for a transfer", to.peer());
  }
  const base::Status status = peers_.start(peers_.at(to.peer()), verb, local, bytes, opened,
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
