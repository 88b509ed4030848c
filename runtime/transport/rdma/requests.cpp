#include "runtime/transport/rdma/requests.hpp"

#include <algorithm>
#include <cstring>

namespace hmc::transport::rdma {

namespace {

constexpr std::int64_t longest_close_ns = 500'000'000;

}  // namespace

Requests::Requests(const Options& options)
    : options_(options), connections_(options), buffers_(connections_.device()) {}

bool Requests::finish() noexcept {
  const std::int64_t limit = base::now_ns() + longest_close_ns;
  bool is_done = true;
  for (Peer* const peer : open_) {
    for (const auto& pair : peer->pairs) {
      if (!pair->is_covered() && pair->has_room(1) && peer->failure.ok()) cover(*peer, *pair, done);
      while (!pair->is_idle() && base::now_ns() < limit) progress();
      is_done = is_done && pair->is_idle();
    }
  }
  return is_done;
}

base::Status Requests::open(Peer& peer) noexcept {
  if (!peer.failure.ok()) return peer.failure;
  const base::Status status = connections_.connect(peer);
  if (!status.ok()) return status;
  peer.is_open = true;
  open_.push_back(&peer);
  return {};
}

base::Status Requests::reserve(Peer& peer, QueuePair& pair, std::uint32_t requests) noexcept {
  if (pair.has_room(requests)) [[likely]]
    return peer.failure;
  const base::Status status = drain(&peer, [&] { return !pair.has_room(requests); });
  return status.ok() ? peer.failure : status;
}

base::Status Requests::take_buffer(Peer& peer, std::uint16_t& number) noexcept {
  const auto is_empty = [&] {
    if (!buffers_.is_empty()) return false;
    for (Peer* const other : open_)
      for (const auto& pair : other->pairs)
        if (other->failure.ok() && !pair->is_covered() && pair->has_room(1)) cover(*other, *pair, done);
    return true;
  };
  if (const base::Status status = drain(&peer, is_empty); !status.ok()) return status;
  number = buffers_.take();
  return {};
}

void Requests::cover(Peer& peer, QueuePair& pair, Ticket ticket) noexcept {
  ibv_send_wr request = make_request(IBV_WR_RDMA_WRITE, nullptr, 0, 0);
  pair.add(request, {.kind = ticket != done ? Record::Kind::ticket : Record::Kind::none, .ticket = ticket}, true);
  post(peer, pair, request);
}

void Requests::post(Peer& peer, QueuePair& pair, ibv_send_wr& first) noexcept {
  if (pair.post(first) == 0) [[likely]]
    return;
  fail(peer, "the device refused a request");
  // The device completes the requests that it has accepted. The refused ones end here; later completions of older
  // requests then have no effect.
  ibv_wc refused{};
  refused.wr_id = pair.last_id();
  refused.status = IBV_WC_WR_FLUSH_ERR;
  complete(refused, true);
}

int Requests::progress() noexcept {
  ibv_wc completions[32];
  const int count = ::ibv_poll_cq(connections_.completions(), 32, completions);
  for (int i = 0; i < count; ++i) complete(completions[i]);
  return std::max(count, 0);
}

void Requests::complete(const ibv_wc& completion, bool fails_all) noexcept {
  Peer& peer = connections_.peer_of(completion.wr_id);
  QueuePair* const pair = connections_.pair_of(completion.wr_id);
  if (pair == nullptr) [[unlikely]]
    return;
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    fail(peer, Library::get().ibv_wc_status_str(completion.status));
  const base::Status failure = completion.status == IBV_WC_SUCCESS ? base::Status{} : peer.failure;
  pair->complete(completion.wr_id, [&](const Record& record, std::uint64_t result, bool is_last) noexcept {
    const base::Status status = is_last || fails_all ? failure : base::Status{};
    if (record.is_stripe) {
      --peer.stripes;
      --stripes_;
    }
    switch (record.kind) {
      case Record::Kind::none: break;
      case Record::Kind::ticket: transfers_.advance(record.ticket, status); break;
      case Record::Kind::copy_out:
        if (status.ok() && transfers_.find(record.ticket) != nullptr)
          std::memcpy(record.destination, buffers_.at(record.slot), record.bytes);
        transfers_.advance(record.ticket, status);
        break;
      case Record::Kind::atomic:
        if (Transfer* const transfer = transfers_.find(record.ticket);
            transfer != nullptr && status.ok() && transfer->result != nullptr)
          std::memcpy(transfer->result, &result, sizeof result);  // a native atomic has 8 bytes
        transfers_.advance(record.ticket, status);
        break;
      case Record::Kind::loop: loops_->continue_loop(peer, record.ticket, result, status); break;
    }
    if (record.slot != 0) buffers_.give_back(record.slot);
  });
}

void Requests::fail(Peer& peer, const char* why) noexcept {
  if (!peer.failure.ok()) return;
  peer.failure = base::Status::failure(Code::peer_failed, why, peer.rank);
  options_.log.info("verbs: rank {} failed: {}", peer.rank, why);
  for (const auto& pair : peer.pairs) pair->fail();
}

void Requests::reclaim(Ticket ticket, std::int64_t limit) noexcept {
  const auto is_held = [&] {
    const Transfer* const transfer = transfers_.find(ticket);
    return transfer != nullptr && transfer->pinned && transfer->left > 0;
  };
  unsigned rounds = 0;
  for (std::uint32_t left = 0; is_held() && base::now_ns() < limit;) {
    if (progress() == 0) idle(rounds);
    const Transfer* const transfer = transfers_.find(ticket);
    if (transfer == nullptr || transfer->left == left) continue;
    left = transfer->left;  // the peer receives data: a slow network isn't a failure
    limit = std::max(limit, base::now_ns() + longest_reclaim_ns);
  }
  if (is_held()) {
    Peer& peer = connections_.at(transfers_.find(ticket)->peer);
    options_.log.warn("verbs: an abandoned transfer with rank {} doesn't complete: its connection is closed",
                      peer.rank);
    fail(peer, "an abandoned transfer didn't complete, and the connection was closed");
    const std::int64_t end = base::now_ns() + longest_reclaim_ns;
    while (is_held() && base::now_ns() < end)
      if (progress() == 0) idle(rounds);
  }
  transfers_.release(ticket);
}

void Requests::reclaim_all(const void* channel) noexcept {
  const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
  std::size_t index = 0;
  for (Ticket ticket = transfers_.next_of(channel, index); ticket != done; ticket = transfers_.next_of(channel, index))
    reclaim(ticket, limit);
}

void Requests::remove(Peer& peer) noexcept {
  connections_.refuse(peer);
  if (peer.failure.ok()) peer.failure = base::Status::failure(Code::peer_failed, "the peer was removed", peer.rank);
  for (const auto& pair : peer.pairs) pair->fail();
  // The device completes every request. A later peer with this number must not see these completions.
  const auto is_idle = [&] {
    return std::ranges::all_of(peer.pairs, [](const auto& pair) { return pair->is_idle(); });
  };
  const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
  unsigned rounds = 0;
  while (!is_idle() && base::now_ns() < limit)
    if (progress() == 0) idle(rounds);
  if (!is_idle()) {
    options_.log.warn("verbs: requests of the removed peer {} don't complete: its number isn't used again", peer.rank);
    return;
  }
  std::erase(open_, &peer);
  connections_.forget(peer);
}

}  // namespace hmc::transport::rdma
