#include "runtime/transport/ucx/peers.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/ucx/tsan_order.hpp"

namespace hmc::transport::ucx {

namespace {

/// Each of close()'s two steps takes no longer than this.
constexpr std::int64_t longest_goodbye_ns = 1'000'000'000;
/// How long UCX may take to give back what it holds for a connection that was ended.
constexpr std::int64_t longest_burial_ns = 200'000'000;

}  // namespace

Peers::~Peers() { close(); }

void Peers::know(std::vector<base::Bytes> addresses) {
  peers_.resize(addresses.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.rank = static_cast<int>(i);
    peer.owner = this;
    if (addresses[i].empty()) continue;
    base::ByteReader in(addresses[i]);
    const auto version = in.number<std::uint8_t>();
    if (version != protocol_version) {
      throw Error(Code::refused, "ucx",
                  fmt::format("rank {} speaks version {} of this wire, and we speak {}", i, version, protocol_version),
                  "all ranks must run the same build");
    }
    peer.secret = in.number<std::uint64_t>();
    const base::ByteView worker = in.raw(in.left());
    if (!in.complete() || worker.empty())
      throw Error(Code::refused, "ucx", fmt::format("rank {} sent an address of {} bytes", i, addresses[i].size()));
    peer.address.assign(worker.begin(), worker.end());
  }
  failed_.reserve(peers_.size());
  queued_.reserve(peers_.size());
}

base::Status Peers::ready(Peer& peer) noexcept {
  if (!peer.failure.ok()) return peer.failure;
  return peer.endpoint != nullptr ? base::Status{} : connect(peer);
}

bool Peers::join(Peer& peer, const Message& message, const void* data, std::uint64_t bytes) noexcept {
  Sending* const last = peer.last;
  // Whose data isn't copied has a ticket.
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

base::Status Peers::post(Peer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
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
  if (!hold && peer.first == nullptr && bytes <= chunk_bytes && has_room(peer)) return hand_over(*record);
  enqueue(peer, *record);
  return drain(peer, hold ? record : nullptr);
}

base::Status Peers::drain(Peer& peer, const Sending* end) noexcept {
  while (peer.first != end && has_room(peer))
    if (const base::Status status = send_first(peer); !status.ok()) return status;
  return {};
}

base::Status Peers::send(Peer& peer, const Message& message, const void* data, std::uint64_t bytes,
                         Regions::Exposed* reading) noexcept {
  if (const base::Status status = ready(peer); !status.ok()) return status;
  Sending* const record = take(peer, message);
  if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank);
  record->source = static_cast<const std::byte*>(data);
  record->bytes = bytes;
  record->reading = reading;
  return hand_over(*record);
}

void Peers::enqueue(Peer& peer, Sending& record) noexcept {
  if (peer.first == nullptr) {
    peer.first = peer.last = &record;
    queued_.push_back(peer.rank);
    return;
  }
  peer.last = peer.last->next = &record;
}

Sending* Peers::dequeue(Peer& peer) noexcept {
  Sending* const record = std::exchange(peer.first, peer.first->next);
  record->next = nullptr;
  if (peer.first == nullptr) {
    peer.last = nullptr;
    std::erase(queued_, peer.rank);
  }
  return record;
}

base::Status Peers::send_first(Peer& peer) noexcept {
  Sending& verb = *peer.first;
  if (verb.bytes <= chunk_bytes) return hand_over(*dequeue(peer));
  Message message = verb.message;
  message.kind = Kind::put;
  Sending* const chunk = take(peer, message);
  if (chunk == nullptr) {
    fail(peer, base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank));
    return peer.failure;
  }
  chunk->ticket = verb.ticket;
  chunk->source = verb.source;
  chunk->bytes = chunk_bytes;
  verb.source += chunk_bytes;
  verb.message.offset += chunk_bytes;
  verb.bytes -= chunk_bytes;
  return hand_over(*chunk);
}

int Peers::pump() noexcept {
  int count = 0;
  // From the end: a queue that becomes empty leaves the list.
  for (std::size_t i = queued_.size(); i-- > 0;) {
    Peer& peer = at(queued_[i]);
    for (; peer.failure.ok() && peer.first != nullptr && has_room(peer); ++count) (void)send_first(peer);
  }
  return count;
}

bool Peers::could_pump() const noexcept {
  return std::any_of(queued_.begin(), queued_.end(),
                     [&](int rank) { return at(rank).failure.ok() && has_room(at(rank)); });
}

void Peers::unqueue(int rank, Ticket ticket) noexcept {
  Peer& peer = at(rank);
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
  Peer& peer = *record.peer;
  record.message.sequence = peer.sent++;
  if (!record.joined) record.message.bytes = record.bytes;
  record.message.secret = peer.secret;
  ++peer.in_flight;
  if (record.reading != nullptr) ++record.reading->sending;
  if (record.ticket != done)
    if (Tickets::Transfer* const transfer = tickets_.known(record.ticket)) ++transfer->sending;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_sent;
  param.user_data = &record;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;  // it needn't look the address up
  TsanOrder::sends(record.message.origin);
  void* const request = worker_.ucp().ucp_am_send_nbx(peer.endpoint, 0, &record.message, sizeof(Message), record.source,
                                                      record.bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return {};
  const ucs_status_t sent = request == nullptr ? UCS_OK : UCS_PTR_STATUS(request);
  finish(record, sent);
  return sent == UCS_OK ? base::Status{} : peer.failure;
}

base::Status Peers::connect(Peer& peer) noexcept {
  if (peer.address.empty()) return base::Status::failure(Code::unavailable, "that rank has no UCX", peer.rank);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  const ucs_status_t status = worker_.ucp().ucp_ep_create(worker_.handle(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    log_.warn("ucx: no connection to rank {}: {}", peer.rank, worker_.ucp().ucs_status_string(status));
    fail(peer, base::Status::failure(Code::unavailable, worker_.ucp().ucs_status_string(status), peer.rank));
    return peer.failure;
  }
  if (log_.wants(base::LogLevel::info)) describe(peer);
  return {};
}

/// UCX tells the devices it took only in this text.
void Peers::describe(const Peer& peer) const {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return;
  worker_.ucp().ucp_ep_print_info(peer.endpoint, stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  const std::string all(text, size);
  const auto lane = all.find("lane[0]:");
  const auto line = lane == std::string::npos ? std::string("?") : all.substr(lane, all.find('\n', lane) - lane);
  log_.info("ucx: connected to rank {} by {}", peer.rank, line);
}

Sending* Peers::take(Peer& peer, const Message& message) noexcept {
  if (free_.empty()) {
    // A message that finds no free record is the only one that allocates.
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

void Peers::finish(Sending& record, ucs_status_t status) noexcept {
  Peer& peer = *record.peer;
  --peer.in_flight;
  if (Regions::Exposed* const region = std::exchange(record.reading, nullptr)) --region->sending;
  const Ticket ticket = record.ticket;
  Tickets::Transfer* const transfer = tickets_.known(ticket);
  const bool was_last = transfer != nullptr && --transfer->sending == 0;
  if (status == UCS_OK) tickets_.advance(ticket, 1);
  give_back(record);
  if (status != UCS_OK)
    fail(peer, base::Status::failure(Code::peer_failed, worker_.ucp().ucs_status_string(status), peer.rank));
  // Failed only now that UCX reads its memory no more; bury() fails those that UCX holds nothing of.
  if (was_last && !peer.failure.ok()) tickets_.fail(ticket, peer.failure);
}

void Peers::on_sent(void* request, ucs_status_t status, void* user_data) noexcept {
  auto& record = *static_cast<Sending*>(user_data);
  Peers& peers = *record.peer->owner;
  peers.finish(record, status);
  peers.worker_.ucp().ucp_request_free(request);
}

void Peers::on_error(void* argument, ucp_ep_h, ucs_status_t status) noexcept {
  auto& peer = *static_cast<Peer*>(argument);
  Peers& peers = *peer.owner;
  peers.log_.debug("ucx: rank {}: {}", peer.rank, peers.worker_.ucp().ucs_status_string(status));
  peers.fail(peer, base::Status::failure(Code::peer_failed, "the connection was lost", peer.rank));
}

void Peers::fail(Peer& peer, base::Status status) noexcept {
  if (!peer.failure.ok()) return;
  peer.failure = status;
  failed_.push_back(peer.rank);
}

void Peers::fail_readers(const Regions::Exposed& region, base::Status status) noexcept {
  for (const auto& record : records_)
    if (record->reading == &region) fail(*record->peer, status);
}

void Peers::bury() noexcept {
  // By index: while UCX gives back what it held, more may fail.
  for (std::size_t i = 0; i < failed_.size(); ++i) bury(at(failed_[i]));
  failed_.clear();
}

void Peers::bury(Peer& peer) noexcept {
  unqueue(peer.rank, done);
  close_endpoint(peer, UCP_EP_CLOSE_FLAG_FORCE);
  const std::int64_t limit = base::now_ns() + longest_burial_ns;
  while (peer.in_flight > 0 && base::now_ns() < limit) (void)worker_.progress();
  if (peer.in_flight > 0) log_.warn("ucx: UCX keeps {} messages to rank {}", peer.in_flight, peer.rank);
  tickets_.fail_peer(peer.rank, peer.failure);
}

void Peers::close_endpoint(Peer& peer, unsigned flags) noexcept {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  void* const request = worker_.ucp().ucp_ep_close_nbx(peer.endpoint, &param);
  peer.endpoint = nullptr;
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Peers::wait_closing(std::int64_t limit_ns) noexcept {
  const std::int64_t limit = base::now_ns() + limit_ns;
  while (!closing_.empty() && base::now_ns() < limit) {
    if (worker_.progress() == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::erase_if(closing_, [&](void* request) {
      if (worker_.ucp().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      worker_.ucp().ucp_request_free(request);
      return true;
    });
  }
}

void Peers::close() noexcept {
  if (std::exchange(closed_, true)) return;
  // Windows were flushed before, so there is next to nothing to deliver: answers to others at most.
  // A peer that is gone or stuck must not hold us.
  bury();
  const std::int64_t limit = base::now_ns() + longest_goodbye_ns;
  while (sending() > 0 && base::now_ns() < limit) {
    if (worker_.progress() == 0) ::sched_yield();
    bury();
    pump();
  }
  for (Peer& peer : peers_) {
    // Only who doesn't take what is sent is cut off; the others get all of it.
    const unsigned flags = peer.in_flight > 0 || peer.first != nullptr ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    if (peer.failure.ok()) peer.failure = base::Status::failure(Code::closed, "the wire was closed", peer.rank);
    close_endpoint(peer, flags);
  }
  wait_closing(longest_goodbye_ns);
  // UCX wants to be told that nobody will ask about the rest; otherwise it ends the process.
  for (void* const request : closing_) worker_.ucp().ucp_request_free(request);
  if (!closing_.empty()) log_.debug("ucx: {} connections didn't end in time", closing_.size());
  closing_.clear();
}

}  // namespace hmc::transport::ucx
