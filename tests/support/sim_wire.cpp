#include "tests/support/sim_wire.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/transport/load_store.hpp"

namespace hmc::spmd {

namespace {

constexpr std::size_t inline_max = 48;
constexpr std::size_t piece_bytes = 1500;  // neither a power of two nor a divisor of one

}  // namespace

class SimChannel final : public transport::Channel {
 public:
  SimChannel(SimWire& wire, int peer, const transport::Region& region)
      : wire_(wire), peer_(peer), segment_(region.segment), base_(region.base) {}
  ~SimChannel() override { wire_.abandon_channel(this); }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override {
    return write(offset, source, bytes, nullptr, 0, ticket);
  }
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, transport::Ticket& ticket) noexcept override {
    return write(offset, source, bytes, reinterpret_cast<std::uint64_t*>(base_ + signal_offset), value, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override {
    SimWire::Operation get;
    get.kind = SimWire::Operation::Kind::get;
    get.peer = peer_;
    get.channel = this;
    get.held = segment_;
    get.remote = base_ + offset;
    get.destination = static_cast<std::byte*>(destination);
    get.bytes = bytes;
    wire_.cut(get);
    wire_.issue(std::move(get), ticket);
    return {};
  }
  base::Status atomic(const transport::Atomic& atomic, std::uint64_t offset, void* result,
                      transport::Ticket& ticket) noexcept override {
    SimWire::Operation operation;
    operation.kind = SimWire::Operation::Kind::atomic;
    operation.peer = peer_;
    operation.channel = this;
    operation.held = segment_;
    operation.remote = base_ + offset;
    operation.atomic = atomic;
    operation.result = result;
    wire_.issue(std::move(operation), ticket);
    return {};
  }

 private:
  base::Status write(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t* signal,
                     std::uint64_t value, transport::Ticket& ticket) noexcept {
    SimWire::Operation put;
    put.peer = peer_;
    put.channel = this;
    put.held = segment_;
    put.remote = base_ + offset;
    put.source = static_cast<const std::byte*>(source);
    put.bytes = bytes;
    put.signal = signal;
    put.value = value;
    wire_.cut(put);
    wire_.issue(std::move(put), ticket);
    return {};
  }

  SimWire& wire_;
  int peer_;
  std::shared_ptr<base::Segment> segment_;
  std::byte* base_;
};

SimWire::Fault SimWire::fault_named(std::string_view name) {
  constexpr std::array<std::string_view, 8> names{"none",   "fence",  "signal", "flush",
                                                  "source", "ticket", "atomic", "abandon"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Fault>(i);
  throw std::invalid_argument("no such fault: " + std::string(name));
}

SimWire::SimWire(int rank, std::uint64_t seed, Fault fault)
    : rank_(rank), fault_(fault), random_(seed * 1000 + static_cast<std::uint64_t>(rank)) {}
SimWire::~SimWire() = default;

void SimWire::deregister_region(const transport::Region& mine) noexcept {
  std::erase_if(registered_, [&](const transport::Region& region) { return region.base == mine.base; });
}

transport::Capabilities SimWire::capabilities() const noexcept {
  return {.direct = false, .needs_target = false, .put_inline_max = inline_max};
}

base::Bytes SimWire::address() {
  base::ByteWriter out;
  out.number(static_cast<std::int32_t>(::getpid()));
  return out.take();
}

void SimWire::set_peer_addresses(std::vector<base::Bytes> addresses) {
  for (const base::Bytes& address : addresses)
    reachable_.push_back(base::ByteReader(address).number<std::int32_t>() == ::getpid());
}

transport::Reachability SimWire::reaches(int peer) const {
  const bool yes = reachable_[static_cast<std::size_t>(peer)];
  return {yes, yes ? "a thread of this process" : "another process"};
}

base::Bytes SimWire::register_region(const transport::Region& mine) {
  registered_.push_back(mine);
  base::ByteWriter out;
  out.number(reinterpret_cast<std::uintptr_t>(&registered_.back()));
  return out.take();
}

std::vector<std::unique_ptr<transport::Channel>> SimWire::connect(const transport::Region&,
                                                                  std::span<const base::Bytes> keys,
                                                                  std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<transport::Channel>> channels;
  for (const int peer : peers) {
    const auto key = base::ByteReader(keys[static_cast<std::size_t>(peer)]).number<std::uintptr_t>();
    channels.push_back(std::make_unique<SimChannel>(*this, peer, *reinterpret_cast<const transport::Region*>(key)));
  }
  return channels;
}

transport::Ticket SimWire::new_ticket() {
  open_tickets_.push_back(true);
  return open_tickets_.size();
}

void SimWire::end_ticket(Operation& operation) {
  if (operation.ticket != transport::done) open_tickets_[operation.ticket - 1] = false;
  operation.ticket = transport::done;
}

bool SimWire::abandon(Operation& operation) {
  using Kind = Operation::Kind;
  if (fault_ == Fault::abandon) return false;
  end_ticket(operation);
  if (operation.kind != Kind::put) return true;
  if (operation.source != nullptr) operation.captured.assign(operation.source, operation.source + operation.bytes);
  operation.source = nullptr;
  return false;
}

void SimWire::abandon(transport::Ticket ticket) noexcept {
  if (ticket == transport::done) return;
  std::erase_if(pending_, [&](Operation& operation) { return operation.ticket == ticket && abandon(operation); });
}

void SimWire::abandon_channel(const void* channel) noexcept {
  std::erase_if(pending_, [&](Operation& operation) {
    return operation.channel == channel && operation.ticket != transport::done && abandon(operation);
  });
}

void SimWire::cut(Operation& operation) {
  for (std::size_t at = 0; at < operation.bytes; at += piece_bytes)
    operation.pieces.push_back(static_cast<std::uint32_t>(at));
  std::shuffle(operation.pieces.begin(), operation.pieces.end(), random_);
}

void SimWire::issue(Operation operation, transport::Ticket& ticket) {
  using Kind = Operation::Kind;
  operation.epoch = epoch_;
  operation.number = issued_++;
  ticket = transport::done;
  const bool returns = operation.kind == Kind::get || operation.kind == Kind::flush ||
                       (operation.kind == Kind::atomic && transport::returns_value(operation.atomic.op));
  if (operation.kind == Kind::put && operation.bytes <= inline_max && fault_ != Fault::source) {
    operation.captured.assign(operation.source, operation.source + operation.bytes);
    operation.source = nullptr;
  } else if (operation.kind == Kind::put || returns) {
    operation.ticket = ticket = new_ticket();
  }
  if (fault_ == Fault::ticket && operation.kind == Kind::get) {
    end_ticket(operation);
    ticket = transport::done;
  }
  if (fault_ == Fault::source && operation.kind == Kind::put) {
    end_ticket(operation);
    ticket = transport::done;
  }
  pending_.push_back(std::move(operation));
}

bool SimWire::may_go(const Operation& operation) const {
  using Kind = Operation::Kind;
  for (const Operation& other : pending_) {
    if (other.number >= operation.number) break;  // in order of issue
    if (other.kind == Kind::flush) continue;
    if (operation.kind == Kind::flush) {
      if (fault_ == Fault::flush || other.kind == Kind::get) continue;
      if (operation.peer < 0 || operation.peer == other.peer) return false;
    } else if (other.peer == operation.peer && other.epoch < operation.epoch && fault_ != Fault::fence) {
      return false;
    }
  }
  return true;
}

void SimWire::apply_piece(Operation& operation) {
  const std::size_t at = operation.pieces.back();
  operation.pieces.pop_back();
  const std::size_t bytes = std::min(piece_bytes, operation.bytes - at);
  if (operation.kind == Operation::Kind::get) {
    std::memcpy(operation.destination + at, operation.remote + at, bytes);
  } else {
    const std::byte* const from = operation.source != nullptr ? operation.source : operation.captured.data();
    std::memcpy(operation.remote + at, from + at, bytes);
  }
}

bool SimWire::step(Operation& operation) {
  using Kind = Operation::Kind;
  if (operation.kind == Kind::atomic) {
    std::uint64_t old = 0;
    if (fault_ == Fault::atomic && operation.atomic.op == transport::AtomicOp::fetch_add &&
        operation.atomic.width == 8) {
      auto* const word = reinterpret_cast<std::uint64_t*>(operation.remote);
      old = std::atomic_ref(*word).load();
      std::this_thread::yield();
      std::atomic_ref(*word).store(old + operation.atomic.operand);
    } else {
      old = transport::apply_atomic(operation.atomic, operation.remote);
    }
    if (operation.result != nullptr && transport::returns_value(operation.atomic.op))
      std::memcpy(operation.result, &old, operation.atomic.width);
    return true;
  }
  if (operation.kind == Kind::flush) return random(3) == 0;
  if (operation.signal != nullptr && fault_ == Fault::signal)
    std::atomic_ref(*operation.signal).store(operation.value, std::memory_order_release);
  // Sometimes the source becomes reusable early.
  if (operation.source != nullptr && random(4) == 0 && fault_ != Fault::source) {
    operation.captured.assign(operation.source, operation.source + operation.bytes);
    operation.source = nullptr;
    end_ticket(operation);
  }
  for (std::uint64_t count = 1 + random(64); count > 0 && !operation.pieces.empty(); --count) apply_piece(operation);
  if (!operation.pieces.empty()) return false;
  // Release: pairs with the acquire load of the rank that waits for the signal.
  if (operation.signal != nullptr) std::atomic_ref(*operation.signal).store(operation.value, std::memory_order_release);
  return true;
}

int SimWire::progress() noexcept {
  // Nonzero while operations are pending: a waiting rank must not sleep, since only its own progress() executes them.
  int happened = pending_.empty() ? 0 : 1;
  for (std::uint64_t steps = random(4); steps > 0 && !pending_.empty(); --steps) {
    // Chooses among the first few operations only; otherwise a long queue takes quadratic time.
    const std::size_t index = random(std::min<std::size_t>(pending_.size(), 16));
    Operation& operation = pending_[index];
    if (!may_go(operation)) continue;
    ++happened;
    if (!step(operation)) continue;
    end_ticket(operation);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return happened;
}

base::Status SimWire::test(transport::Ticket ticket) noexcept {
  if (ticket == transport::done || !open_tickets_[ticket - 1]) return {};
  return base::Status::in_progress();
}

base::Status SimWire::fence() noexcept {
  ++epoch_;
  return {};
}

base::Status SimWire::flush(int peer, transport::Ticket& ticket) noexcept {
  Operation flush;
  flush.kind = Operation::Kind::flush;
  flush.peer = peer;
  issue(std::move(flush), ticket);
  return {};
}

}  // namespace hmc::spmd
