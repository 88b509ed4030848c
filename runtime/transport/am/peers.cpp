#include "runtime/transport/am/peers.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/am/tsan_order.hpp"

namespace hmc::transport::am {

namespace {

/// Time limit for each of the two steps of close().
constexpr std::int64_t close_timeout_ns = 1'000'000'000;
/// Time limit for the link to release the messages of a closed connection.
constexpr std::int64_t release_timeout_ns = 200'000'000;

}  // namespace

Peers::~Peers() { close(); }

base::Bytes encode_address(std::uint64_t secret, std::uint32_t origin, const base::Bytes& link) {
  base::ByteWriter out;
  out.number(protocol_version).number(secret).number(origin).raw(link);
  return out.take();
}

void Peers::create(std::size_t count, std::uint32_t origin, std::uint64_t accepted) {
  peers_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    peers_[i].rank = static_cast<int>(i);
    peers_[i].origin = origin;
    peers_[i].accepted_secret = accepted;
  }
  failed_.reserve(count);
  queued_.reserve(count);
}

void Peers::know(int rank, base::ByteView address) {
  AmPeer& peer = at(rank);
  base::ByteReader in(address);
  const auto version = in.number<std::uint8_t>();
  if (version != protocol_version)
    throw Error(Code::invalid_config, std::string(traits_.name),
                fmt::format("rank {} uses protocol version {} of this wire, this rank uses {}", rank, version,
                            protocol_version),
                "all ranks must run the same build");
  const auto secret = in.number<std::uint64_t>();
  const auto origin = in.number<std::uint32_t>();
  const base::ByteView link = in.raw(in.left());
  if (!in.complete() || link.empty())
    throw Error(Code::refused, std::string(traits_.name),
                fmt::format("rank {} sent an address of {} bytes", rank, address.size()));
  peer.secret = secret;
  if (origin != own_rank) peer.origin = origin;
  peer.address.assign(link.begin(), link.end());
}

void Peers::forget(int rank) noexcept {
  AmPeer& peer = at(rank);
  fail(peer, base::Status::failure(Code::closed, "the peer was removed", rank));
  reap();
  if (peer.in_flight > 0) return;  // the link still reads its records: the number stays failed
  peer = AmPeer{};
  peer.rank = rank;
}

Keystream Peers::tags(std::uint64_t secret, std::uint32_t origin) const noexcept {
  return Keystream({key_, std::as_bytes(std::span(&secret, 1)), std::as_bytes(std::span(&origin, 1))});
}

bool Peers::has_tag(const Message& message) noexcept {
  if (message.origin >= static_cast<std::uint32_t>(count())) return false;
  AmPeer& peer = at(static_cast<int>(message.origin));
  if (!peer.accepted_tags.has_key()) {
    if (peer.accepted_secret == 0) return false;
    peer.accepted_tags = tags(peer.accepted_secret, message.origin);
  }
  return message.tag == peer.accepted_tags.at(message.sequence);
}

base::Status Peers::ready(AmPeer& peer) noexcept {
  if (!peer.failure.ok()) return peer.failure;
  return peer.connected ? base::Status{} : connect(peer);
}

bool Peers::join(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes) noexcept {
  Sending* const last = peer.last;
  // A verb whose data isn't copied has a ticket, so no verb can be joined to it.
  if (last == nullptr || last->ticket != done || last->bytes + sizeof(Message) + bytes > joined_bytes) return false;
  if (!std::exchange(last->joined, true)) last->message.bytes = last->bytes;
  last->source = last->data;
  Message next = message;
  next.bytes = bytes;
  std::memcpy(last->data + last->bytes, &next, sizeof next);
  if (bytes > 0) std::memcpy(last->data + last->bytes + sizeof next, data, bytes);
  last->bytes += sizeof next + bytes;
  ++peer.posted;
  return true;
}

base::Status Peers::post(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
                         bool hold) noexcept {
  if (const base::Status status = ready(peer); !status.ok()) return status;
  if (ticket == done && join(peer, message, data, bytes)) return hold ? base::Status{} : drain(peer, nullptr);
  Sending* const record = take(peer, message);
  if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank);
  ++peer.posted;
  record->ticket = ticket;
  record->source = static_cast<const std::byte*>(data);
  record->bytes = bytes;
  if (bytes > 0 && bytes <= inline_bytes) {
    std::memcpy(record->data, data, bytes);
    record->source = record->data;
  }
  if (!hold && peer.first == nullptr && bytes <= traits_.chunk_bytes && has_room(peer)) return hand_over(*record);
  enqueue(peer, *record);
  return drain(peer, hold ? record : nullptr);
}

base::Status Peers::drain(AmPeer& peer, const Sending* end) noexcept {
  while (peer.first != end && has_room(peer))
    if (const base::Status status = send_first(peer); !status.ok()) return status;
  return {};
}

base::Status Peers::send(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes,
                         Regions::Registered* reading) noexcept {
  if (const base::Status status = ready(peer); !status.ok()) return status;
  Sending* const record = take(peer, message);
  if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank);
  record->source = static_cast<const std::byte*>(data);
  record->bytes = bytes;
  record->reading = reading;
  return hand_over(*record);
}

void Peers::enqueue(AmPeer& peer, Sending& record) noexcept {
  if (peer.first == nullptr) {
    peer.first = peer.last = &record;
    queued_.push_back(peer.rank);
    return;
  }
  peer.last = peer.last->next = &record;
}

Sending* Peers::dequeue(AmPeer& peer) noexcept {
  Sending* const record = std::exchange(peer.first, peer.first->next);
  record->next = nullptr;
  if (peer.first == nullptr) {
    peer.last = nullptr;
    std::erase(queued_, peer.rank);
  }
  return record;
}

base::Status Peers::send_first(AmPeer& peer) noexcept {
  Sending& verb = *peer.first;
  if (verb.bytes <= traits_.chunk_bytes) return hand_over(*dequeue(peer));
  Message message = verb.message;
  message.kind = MessageKind::put;
  Sending* const chunk = take(peer, message);
  if (chunk == nullptr) {
    fail(peer, base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank));
    return peer.failure;
  }
  chunk->ticket = verb.ticket;
  chunk->source = verb.source;
  chunk->bytes = traits_.chunk_bytes;
  verb.source += chunk->bytes;
  verb.message.offset += chunk->bytes;
  verb.bytes -= chunk->bytes;
  return hand_over(*chunk);
}

int Peers::pump() noexcept {
  int count = 0;
  // Iterates backwards, because a queue that becomes empty is removed from the list.
  for (std::size_t i = queued_.size(); i-- > 0;) {
    AmPeer& peer = at(queued_[i]);
    for (; peer.failure.ok() && peer.first != nullptr && has_room(peer); ++count) (void)send_first(peer);
  }
  return count;
}

bool Peers::could_pump() const noexcept {
  return std::any_of(queued_.begin(), queued_.end(),
                     [&](int rank) { return at(rank).failure.ok() && has_room(at(rank)); });
}

void Peers::unqueue(int rank, Ticket ticket) noexcept {
  AmPeer& peer = at(rank);
  Sending* rest = peer.first;
  peer.first = peer.last = nullptr;
  std::erase(queued_, rank);
  while (rest != nullptr) {
    Sending* const record = std::exchange(rest, rest->next);
    record->next = nullptr;
    if (ticket == done || record->ticket == ticket)
      give_back(*record);
    else
      enqueue(peer, *record);
  }
}

base::Status Peers::hand_over(Sending& record) noexcept {
  AmPeer& peer = *record.peer;
  record.message.sequence = peer.sent++;
  if (!record.joined) record.message.bytes = record.bytes;
  record.message.tag = peer.tags.at(record.message.sequence);
  record.message.origin = peer.origin;
  ++peer.in_flight;
  if (record.reading != nullptr) ++record.reading->sending;
  if (record.ticket != done)
    if (Tickets::Transfer* const transfer = tickets_.known(record.ticket)) ++transfer->sending;
  TsanOrder::sends(record.message.origin);
  const base::Status sent = link_.send(record);
  if (sent.code == Code::in_progress) return {};
  finish(record, sent);
  return sent.ok() ? base::Status{} : peer.failure;
}

base::Status Peers::connect(AmPeer& peer) noexcept {
  if (peer.address.empty()) return base::Status::failure(Code::unavailable, "that rank has no such wire", peer.rank);
  if (const base::Status status = link_.connect(peer.rank, peer.address); !status.ok()) {
    log_.warn("{}: no connection to rank {}: {}", traits_.name, peer.rank, status.what);
    fail(peer, base::Status::failure(Code::unavailable, status.what, peer.rank, status.sys_errno));
    return peer.failure;
  }
  peer.connected = true;
  if (!peer.tags.has_key()) peer.tags = tags(peer.secret, peer.origin);
  if (log_.wants(base::LogLevel::info))
    log_.info("{}: connected to rank {} by {}", traits_.name, peer.rank, link_.describe(peer.rank));
  return {};
}

Sending* Peers::take(AmPeer& peer, const Message& message) noexcept {
  if (free_.empty()) {
    // The only allocation: no record is free.
    auto record = std::unique_ptr<Sending>(new (std::nothrow) Sending);
    if (record == nullptr) return nullptr;
    try {
      if (free_.capacity() <= records_.size())
        free_.reserve(2 * records_.size() + 16);  // so that give_back() never allocates
      records_.push_back(std::move(record));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    free_.push_back(records_.back().get());
  }
  Sending* const record = free_.back();
  free_.pop_back();
  record->message = message;
  record->peer = &peer;
  record->ticket = done;
  record->joined = false;
  record->reading = nullptr;
  record->next = nullptr;
  return record;
}

void Peers::finish(Sending& record, base::Status status) noexcept {
  AmPeer& peer = *record.peer;
  --peer.in_flight;
  if (Regions::Registered* const region = std::exchange(record.reading, nullptr)) --region->sending;
  const Ticket ticket = record.ticket;
  Tickets::Transfer* const transfer = tickets_.known(ticket);
  const bool was_last = transfer != nullptr && reads_memory(record) && --transfer->sending == 0;
  if (status.ok()) tickets_.advance(ticket, 1);
  give_back(record);
  if (!status.ok()) fail(peer, base::Status::failure(Code::peer_failed, status.what, peer.rank, status.sys_errno));
  // The transfer fails only when the link no longer reads its memory. reap() fails the transfers without a message in
  // flight.
  if (was_last && !peer.failure.ok()) tickets_.fail(ticket, peer.failure);
}

void Peers::lost(int rank, const char* why, int error) noexcept {
  log_.debug("{}: rank {}: {}", traits_.name, rank, why);
  fail(at(rank), base::Status::failure(Code::peer_failed, why, rank, error));
}

void Peers::fail(AmPeer& peer, base::Status status) noexcept {
  if (!peer.failure.ok()) return;
  peer.failure = status;
  failed_.push_back(peer.rank);
}

void Peers::fail_readers(const Regions::Registered& region, base::Status status) noexcept {
  for (const auto& record : records_)
    if (record->reading == &region) fail(*record->peer, status);
}

void Peers::reap() noexcept {
  // Iterates by index, because more peers may fail while the link releases messages.
  for (std::size_t i = 0; i < failed_.size(); ++i) reap(at(failed_[i]));
  failed_.clear();
}

void Peers::reap(AmPeer& peer) noexcept {
  unqueue(peer.rank, done);
  peer.connected = false;
  link_.disconnect(peer.rank, true);  // also if only the peer connected, so that it sees the close
  const std::int64_t limit = base::now_ns() + release_timeout_ns;
  while (peer.in_flight > 0 && base::now_ns() < limit) (void)link_.progress();
  if (peer.in_flight > 0)
    log_.warn("{}: the link hasn't released {} messages to rank {}", traits_.name, peer.in_flight, peer.rank);
  tickets_.fail_peer(peer.rank, peer.failure);
}

void Peers::disconnect(AmPeer& peer, bool at_once) noexcept {
  if (std::exchange(peer.connected, false)) link_.disconnect(peer.rank, at_once);
}

void Peers::wait_closing(std::int64_t limit_ns) noexcept {
  const std::int64_t limit = base::now_ns() + limit_ns;
  while (link_.ending() > 0 && base::now_ns() < limit)
    if (link_.progress() == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Peers::close() noexcept {
  if (std::exchange(closed_, true)) return;
  // Windows were flushed before, so only answers remain to be sent. A lost or stuck peer must not block this rank.
  reap();
  const std::int64_t limit = base::now_ns() + close_timeout_ns;
  while (sending() > 0 && base::now_ns() < limit) {
    if (link_.progress() == 0) ::sched_yield();
    reap();
    pump();
  }
  for (AmPeer& peer : peers_) {
    // Disconnect at once only the peers that don't receive their messages; the others receive all of them.
    const bool at_once = peer.in_flight > 0 || peer.first != nullptr;
    if (peer.failure.ok()) peer.failure = base::Status::failure(Code::closed, "the wire was closed", peer.rank);
    disconnect(peer, at_once);
  }
  wait_closing(close_timeout_ns);
  if (const std::size_t left = link_.ending(); left > 0)
    log_.debug("{}: {} connections didn't end in time", traits_.name, left);
}

}  // namespace hmc::transport::am
