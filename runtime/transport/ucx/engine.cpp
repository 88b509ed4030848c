#include "runtime/transport/ucx/engine.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/transport/ucx/tsan_order.hpp"

namespace hmc::transport::ucx {

namespace {

/// More messages than this under way, and whoever issues another helps to send them first: memory
/// stays in proportion to what the network takes.
constexpr std::size_t most_sending = 4096;
constexpr std::int64_t longest_help_ns = 100'000'000;
/// How long UCX may take to let go of memory that answers are read from.
constexpr std::int64_t longest_conceal_ns = 2'000'000'000;

}  // namespace

Engine::Engine(const Options& options)
    : options_(options),
      worker_(options.size, options.transports),
      peers_(worker_, tickets_, options.log),
      target_(options.rank, peers_, tickets_, regions_, options.log) {
  worker_.on_message(on_message, this);
}

Engine::~Engine() {
  thread_.reset();
  peers_.close();
}

base::Bytes Engine::address() {
  const std::lock_guard guard(lock_);
  base::Bytes bytes{std::byte{protocol_version}};
  const base::Bytes worker = worker_.address();
  bytes.insert(bytes.end(), worker.begin(), worker.end());
  return bytes;
}

void Engine::know_peers(std::vector<base::Bytes> addresses) {
  const std::lock_guard guard(lock_);
  peers_.know(std::move(addresses));
}

const Peer* Engine::peer(int rank) const noexcept {
  return rank >= 0 && rank < peers_.count() ? &peers_.at(rank) : nullptr;
}

std::uint64_t Engine::expose(std::byte* base, std::uint64_t bytes) {
  if (!thread_) thread_.emplace(*this, worker_.event_fd());
  const std::lock_guard guard(lock_);
  return regions_.add(base, bytes);
}

void Engine::conceal(std::byte* base, std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  Regions::Exposed* const region = regions_.of(base, bytes);
  if (region == nullptr) return;
  if (region->uses > 1) {
    --region->uses;
    return;
  }
  const std::int64_t limit = base::now_ns() + longest_conceal_ns;
  while (region->sending > 0 && base::now_ns() < limit) progress_locked();
  if (region->sending > 0) options_.log.warn("ucx: {} messages still read a region that is concealed", region->sending);
  region->uses = 0;
}

Message Engine::message(Kind kind, To to, std::uint64_t offset) const noexcept {
  Message message;
  message.origin = static_cast<std::uint32_t>(options_.rank);
  message.kind = kind;
  message.region = to.region;
  message.offset = offset;
  return message;
}

base::Status Engine::put(To to, std::uint64_t offset, const void* source, std::uint64_t bytes,
                         Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  return write(to, offset, source, bytes, message(Kind::put, to, 0), ticket);
}

base::Status Engine::put_signal(To to, std::uint64_t offset, const void* source, std::uint64_t bytes,
                                std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = done;
  Message last = message(Kind::put_signal, to, 0);
  last.first = signal_offset;
  last.second = value;
  return write(to, offset, source, bytes, last, ticket);
}

/// `last` is the message that carries the last chunk: what it does follows all bytes.
base::Status Engine::write(To to, std::uint64_t offset, const void* source, std::uint64_t bytes, const Message& last,
                           Ticket& ticket) noexcept {
  const std::lock_guard guard(lock_);
  relieve();
  Ticket opened = done;
  if (bytes > inline_bytes) opened = tickets_.open({.peer = to.peer, .left = (bytes + chunk_bytes - 1) / chunk_bytes});
  const base::Status status = send_chunks(to, offset, static_cast<const std::byte*>(source), bytes, last, opened);
  if (!status.ok())
    tickets_.drop(opened);
  else if (tickets_.find(opened) != nullptr)
    ticket = opened;
  return status;
}

base::Status Engine::send_chunks(To to, std::uint64_t offset, const std::byte* source, std::uint64_t bytes,
                                 const Message& last, Ticket ticket) noexcept {
  Peer& peer = peers_.at(to.peer);
  std::uint64_t at = 0;
  base::Status status;
  for (; status.ok() && bytes - at > chunk_bytes; at += chunk_bytes)
    status = peers_.send(peer, message(Kind::put, to, offset + at), source + at, chunk_bytes, ticket, nullptr);
  if (status.ok()) {
    Message message = last;
    message.offset = bytes > 0 ? offset + at : 0;
    status = peers_.send(peer, message, source + at, bytes - at, ticket, nullptr);
  }
  peer.asked = peer.sent;
  return status;
}

base::Status Engine::start(Peer& peer, const Message& message, const Tickets::Transfer& transfer,
                           Ticket& ticket) noexcept {
  const Ticket opened = tickets_.open(transfer);
  Message copy = message;
  copy.ticket = opened;
  const base::Status status = peers_.send(peer, copy, nullptr, 0, done, nullptr);
  if (!status.ok()) {
    tickets_.drop(opened);
    return status;
  }
  // Answers come in the order of their questions, so a flush that follows covers a get whose request was dropped.
  peer.asked = peer.sent;
  ticket = opened;
  return status;
}

base::Status Engine::get(To to, std::uint64_t offset, void* destination, std::uint64_t bytes, Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(lock_);
  relieve();
  Message request = message(Kind::get, to, offset);
  request.bytes = bytes;
  return start(peers_.at(to.peer), request,
               {.peer = to.peer, .left = bytes, .destination = static_cast<std::byte*>(destination), .bytes = bytes},
               ticket);
}

base::Status Engine::atomic(To to, const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                            Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  relieve();
  Peer& peer = peers_.at(to.peer);
  Message request = message(Kind::atomic, to, offset);
  request.op = static_cast<std::uint8_t>(atomic.op);
  request.width = atomic.width;
  request.first = atomic.operand;
  request.second = atomic.compare;
  request.wants_result = returns_value(atomic.op) ? 1 : 0;
  base::Status status;
  if (request.wants_result != 0)
    status = start(peer, request, {.peer = to.peer, .left = 1, .result = result}, ticket);
  else
    status = peers_.send(peer, request, nullptr, 0, done, nullptr);
  peer.asked = peer.sent;
  return status;
}

base::Status Engine::flush(int peer, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  relieve();
  if (peer >= 0) return flush_dirty(peer, peer + 1, ticket);
  return flush_dirty(0, peers_.count(), ticket);
}

base::Status Engine::flush_dirty(int first, int last, Ticket& ticket) noexcept {
  const auto dirty = [&](int rank) { return peers_.at(rank).asked > peers_.at(rank).flushed; };
  std::uint64_t count = 0;
  for (int rank = first; rank < last; ++rank) count += dirty(rank) ? 1 : 0;
  if (count == 0) return {};
  const Ticket opened = tickets_.open({.peer = last - first == 1 ? first : -1, .left = count});
  for (int rank = first; rank < last; ++rank) {
    if (!dirty(rank)) continue;
    Message request = message(Kind::flush, {rank, 0}, 0);
    request.ticket = opened;
    const base::Status status = peers_.send(peers_.at(rank), request, nullptr, 0, done, nullptr);
    if (status.ok()) continue;
    tickets_.drop(opened);
    return status;
  }
  ticket = opened;
  return {};
}

ucs_status_t Engine::on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                std::size_t bytes, const ucp_am_recv_param_t* param) noexcept {
  auto& engine = *static_cast<Engine*>(argument);
  // We send eager messages with our header only; anything else isn't from a rank of this job.
  if (header_bytes != sizeof(Message) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  Message message;
  std::memcpy(&message, header, sizeof message);
  TsanOrder::received(message.origin);
  engine.target_.receive(message, static_cast<const std::byte*>(data), bytes);
  return UCS_OK;
}

int Engine::progress_locked() noexcept {
  int happened = 0;
  // Bounded, so that a busy network doesn't keep the owner from what it waits for.
  for (int i = 0; i < 16; ++i) {
    const unsigned events = worker_.progress();
    if (events == 0) break;
    happened += static_cast<int>(events);
  }
  happened += target_.answer();
  peers_.bury();
  return happened;
}

int Engine::progress() noexcept {
  driven_.fetch_add(1, std::memory_order_relaxed);
  const std::unique_lock guard(lock_, std::try_to_lock);
  return guard.owns_lock() ? progress_locked() : 0;
}

void Engine::relieve() noexcept {
  if (peers_.sending() < most_sending) return;
  const std::int64_t limit = base::now_ns() + longest_help_ns;
  while (peers_.sending() >= most_sending && base::now_ns() < limit) progress_locked();
}

bool Engine::owner_sleeps() const noexcept {
  if (options_.waiter == nullptr || !options_.waiter->sleeps()) return false;
  const base::Waiter& waiter = *options_.waiter;
  // Relaxed: a hint; a wrong answer costs a nap.
  return waiter.page().sleepers().load(std::memory_order_relaxed) != 0;
}

bool Engine::arm() noexcept {
  const std::lock_guard guard(lock_);
  return worker_.arm();
}

int Engine::serve() noexcept {
  int happened = 0;
  {
    const std::lock_guard guard(lock_);
    happened = progress_locked();
  }
  if (happened > 0 && options_.waiter != nullptr) options_.waiter->ring(options_.waiter->local_index());
  return happened;
}

}  // namespace hmc::transport::ucx
