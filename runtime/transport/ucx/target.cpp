#include "runtime/transport/ucx/target.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/transport/cpu_atomics.hpp"

namespace hmc::transport::ucx {

void Target::receive(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  if (message.origin >= static_cast<std::uint32_t>(peers_.count())) return;  // no rank of ours
  Peer& peer = peers_.at(static_cast<int>(message.origin));
  if (message.sequence != peer.received++) {
    // Fences and signals rest on this order; to go on would be to corrupt silently.
    log_.error("ucx: message {} from rank {} came where {} was due", message.sequence, peer.rank, peer.received - 1);
    peers_.fail(peer, base::Status::failure(Code::error, "the network reordered messages", peer.rank));
    return;
  }
  if (message.kind < Kind::got)
    carry_out(message, data, bytes);
  else
    take_in(message, data, bytes);
}

void Target::carry_out(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  switch (message.kind) {
    case Kind::put:
    case Kind::put_signal: return do_put(message, data, bytes);
    case Kind::atomic: return do_atomic(message);
    case Kind::get: return do_get(message);
    case Kind::flush: reply(message, Kind::flushed).message.first = message.sequence; return;
    default: return;
  }
}

void Target::do_put(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  Regions::Exposed* const region = regions_.find(message.region, message.offset, bytes);
  if (region == nullptr) return refuse(message);
  if (bytes > 0) std::memcpy(region->base + message.offset, data, bytes);
  ++deliveries_;
  if (message.kind == Kind::put) return;
  if (message.first % 8 != 0 || regions_.find(message.region, message.first, 8) == nullptr) return refuse(message);
  auto* const word = reinterpret_cast<std::uint64_t*>(region->base + message.first);
  // Release: pairs with the acquire load of whoever waits for the signal; the bytes were stored above,
  // and those of earlier messages before that, by a thread that held the engine's lock.
  std::atomic_ref<std::uint64_t>(*word).store(message.second, std::memory_order_release);
}

void Target::do_atomic(const Message& message) noexcept {
  const bool sound = (message.width == 4 || message.width == 8) && message.offset % message.width == 0 &&
                     message.op <= static_cast<std::uint8_t>(AtomicOp::fetch_xor);
  Regions::Exposed* const region = sound ? regions_.find(message.region, message.offset, message.width) : nullptr;
  if (region == nullptr) return refuse(message);
  // By this CPU, so that it is atomic with what the ranks of this node do to the word.
  const Atomic atomic{static_cast<AtomicOp>(message.op), message.width, message.first, message.second};
  const std::uint64_t old = apply_atomic(atomic, region->base + message.offset);
  ++deliveries_;
  if (message.wants_result != 0) reply(message, Kind::result).message.first = old;
}

void Target::do_get(const Message& message) noexcept {
  Regions::Exposed* const region = regions_.find(message.region, message.offset, message.bytes);
  if (region == nullptr) return refuse(message);
  Answer& answer = reply(message, Kind::got);
  answer.region = region;
  answer.offset = message.offset;
  answer.bytes = message.bytes;
}

void Target::refuse(const Message& message) noexcept {
  log_.error("ucx: rank {} asked for bytes from {} of a region that isn't exposed, or is shorter", message.origin,
             message.offset);
  reply(message, Kind::refused);
}

Target::Answer& Target::reply(const Message& to, Kind kind) noexcept {
  Answer& answer = answers_.emplace_back();
  answer.to = static_cast<int>(to.origin);
  answer.message.origin = static_cast<std::uint32_t>(rank_);
  answer.message.kind = kind;
  answer.message.ticket = to.ticket;
  return answer;
}

void Target::take_in(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  Peer& peer = peers_.at(static_cast<int>(message.origin));
  ++deliveries_;
  if (message.kind == Kind::refused) {
    const auto why = base::Status::failure(Code::error, "the peer doesn't expose that region", peer.rank);
    tickets_.fail(message.ticket, why);
    peers_.fail(peer, why);
    return;
  }
  if (message.kind == Kind::flushed) peer.flushed = std::max(peer.flushed, message.first);
  Tickets::Transfer* const transfer = tickets_.find(message.ticket);
  if (transfer == nullptr) return;
  switch (message.kind) {
    case Kind::got:
      if (transfer->destination == nullptr || message.offset > transfer->bytes ||
          bytes > transfer->bytes - message.offset)
        return;
      std::memcpy(transfer->destination + message.offset, data, bytes);
      return tickets_.advance(message.ticket, bytes);
    case Kind::result:
      if (transfer->result != nullptr) *transfer->result = message.first;
      return tickets_.advance(message.ticket, 1);
    case Kind::flushed: return tickets_.advance(message.ticket, 1);
    default: return;
  }
}

int Target::answer() noexcept {
  // Sending delivers nothing, so the list doesn't grow under us.
  for (const Answer& answer : answers_) {
    if (answer.message.kind == Kind::got)
      send_region(answer);
    else
      (void)peers_.send(peers_.at(answer.to), answer.message, nullptr, 0, done, nullptr);
  }
  const int count = static_cast<int>(answers_.size());
  answers_.clear();
  return count;
}

void Target::send_region(const Answer& answer) noexcept {
  Peer& peer = peers_.at(answer.to);
  for (std::uint64_t at = 0; at < answer.bytes; at += chunk_bytes) {
    const std::uint64_t bytes = std::min(chunk_bytes, answer.bytes - at);
    Message message = answer.message;
    message.offset = at;
    // A peer that failed asks for nothing any more; its own side knows.
    const base::Status status =
        peers_.send(peer, message, answer.region->base + answer.offset + at, bytes, done, &answer.region->sending);
    if (!status.ok()) return;
  }
}

}  // namespace hmc::transport::ucx
