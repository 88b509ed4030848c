#include "runtime/transport/am/engine.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace hmc::transport::am {

namespace {

/// How long the link may take to let go of memory that answers are read from.
constexpr std::int64_t longest_conceal_ns = 1'500'000'000;
/// How long a peer may take for what the link holds of a put that is given up: some 2 MiB at most.
constexpr std::int64_t longest_reclaim_ns = 1'000'000'000;
constexpr std::int64_t longest_close_ns = 500'000'000;

base::Status no_memory(int peer) noexcept {
  return base::Status::failure(Code::out_of_memory, "no memory for a transfer", peer);
}

}  // namespace

Options options_of(const WireContext& context) {
  Options options;
  options.rank = context.rank;
  options.size = context.size;
  options.waiter = context.waiter;
  if (context.log != nullptr) options.log = *context.log;
  return options;
}

Engine::Engine(const Options& options, std::unique_ptr<Link> link)
    : options_(options),
      secret_(make_nonce()),
      link_(std::move(link)),
      peers_(*link_, tickets_, options.log),
      target_(options.rank, secret_, peers_, tickets_, regions_, options.log) {
  link_->serve(*this, options.rank, options.size);
}

Engine::~Engine() {
  thread_.reset();
  const std::int64_t limit = base::now_ns() + longest_close_ns;
  while (target_.owes() && base::now_ns() < limit)  // answers to ranks that still wait
    if (progress_locked() == 0) ::sched_yield();
  peers_.close();
  // Before the records that it reads, and before those whom it calls back.
  link_->leave(all_left_);
}

base::Bytes Engine::address() {
  const std::lock_guard guard(lock_);
  base::ByteWriter out;
  out.number(protocol_version).number(secret_).raw(link_->address());
  return out.take();
}

void Engine::know_peers(std::vector<base::Bytes> addresses) {
  const std::lock_guard guard(lock_);
  peers_.know(std::move(addresses));
}

const Peer* Engine::peer(int rank) const noexcept {
  return rank >= 0 && rank < peers_.count() ? &peers_.at(rank) : nullptr;
}

Regions::Key Engine::register_region(std::byte* base, std::uint64_t bytes) {
  if (!thread_) thread_.emplace(*this, link_->event_fd());
  const std::lock_guard guard(lock_);
  return regions_.add(base, bytes);
}

void Engine::deregister_region(std::byte* base, std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  Regions::Registered* const region = regions_.of(base, bytes);
  if (region == nullptr) return;
  if (region->uses > 1) {
    --region->uses;
    return;
  }
  region->uses = 0;  // from here on no message finds it
  region->receives.clear();
  target_.forget(*region);
  const std::int64_t limit = base::now_ns() + longest_conceal_ns;
  while (region->sending > 0 && base::now_ns() < limit) progress_locked();
  if (region->sending == 0) return;
  options_.log.warn("{}: {} messages still read a region that is concealed: their connections are cut",
                    link_->traits().name, region->sending);
  peers_.fail_readers(*region, base::Status::failure(Code::peer_failed, "it takes no answers"));
  progress_locked();
}

bool Engine::receive_into(std::byte* base, std::uint64_t bytes, DirectReceive& receive) noexcept {
  const std::lock_guard guard(lock_);
  Regions::Registered* const region = regions_.of(base, bytes);
  if (region == nullptr) return false;
  receive.count = 0;
  try {
    region->receives.push_back(&receive);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Engine::end_receive_into(std::byte* base, std::uint64_t bytes, DirectReceive& receive) noexcept {
  const std::lock_guard guard(lock_);
  if (Regions::Registered* const region = regions_.of(base, bytes)) std::erase(region->receives, &receive);
}

Message Engine::message(Kind kind, const Regions::Key& region, std::uint64_t offset) const noexcept {
  Message message;
  message.origin = static_cast<std::uint32_t>(options_.rank);
  message.kind = kind;
  message.region = region.index;
  message.nonce = region.nonce;
  message.offset = offset;
  return message;
}

base::Status Engine::ready(To to) noexcept {
  relieve();
  if (!target_.was_refused(to.peer, to.region)) [[likely]]
    return {};
  return base::Status::failure(Code::error, "the peer hasn't registered that region", to.peer);
}

base::Status Engine::put(To to, std::uint64_t offset, const void* source, std::uint64_t bytes,
                         Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  return write(to, source, bytes, message(Kind::put, to.region, offset), ticket);
}

base::Status Engine::put_signal(To to, std::uint64_t offset, const void* source, std::uint64_t bytes,
                                std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = done;
  Message last = message(Kind::put_signal, to.region, bytes > 0 ? offset : 0);
  last.first = signal_offset;
  last.second = value;
  return write(to, source, bytes, last, ticket);
}

/// `last` goes with the last chunk: what it does follows all bytes.
base::Status Engine::write(To to, const void* source, std::uint64_t bytes, const Message& last,
                           Ticket& ticket) noexcept {
  const std::lock_guard guard(lock_);
  if (const base::Status status = ready(to); !status.ok()) return status;
  Ticket opened = done;
  if (bytes > inline_bytes) {
    opened = tickets_.open({.peer = to.peer, .left = peers_.parts(bytes), .channel = to.channel});
    if (opened == done) return no_memory(to.peer);
  }
  Peer& peer = peers_.at(to.peer);
  // The progress thread sends what is held if nothing else does; asleep it would have to be woken, which costs more
  // than a message of its own.
  const bool hold = last.kind == Kind::put && opened == done && !thread_asleep_;
  const base::Status status = peers_.post(peer, last, source, bytes, opened, hold);
  peer.asked = peer.posted;
  if (!status.ok()) {
    progress_locked();  // buries the peer: the link lets go of the chunks before this one
    tickets_.drop(opened);
  } else if (tickets_.find(opened) != nullptr) {
    ticket = opened;
  }
  return status;
}

base::Status Engine::start(Peer& peer, const Message& message, const Tickets::Transfer& transfer,
                           Ticket& ticket) noexcept {
  const Ticket opened = tickets_.open(transfer);
  if (opened == done) return no_memory(peer.rank);
  Message copy = message;
  copy.ticket = opened;
  const base::Status status = peers_.post(peer, copy, nullptr, 0, done);
  if (!status.ok()) {
    tickets_.drop(opened);
    return status;
  }
  // Answers come in the order of their questions, so a flush that follows covers a get whose request was dropped.
  peer.asked = peer.posted;
  ticket = opened;
  return status;
}

base::Status Engine::get(To to, std::uint64_t offset, void* destination, std::uint64_t bytes, Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(lock_);
  if (const base::Status status = ready(to); !status.ok()) return status;
  Message request = message(Kind::get, to.region, offset);
  request.first = bytes;
  return start(peers_.at(to.peer), request,
               {.peer = to.peer,
                .left = bytes,
                .destination = static_cast<std::byte*>(destination),
                .bytes = bytes,
                .channel = to.channel},
               ticket);
}

base::Status Engine::atomic(To to, const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                            Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  if (const base::Status status = ready(to); !status.ok()) return status;
  Peer& peer = peers_.at(to.peer);
  Message request = message(Kind::atomic, to.region, offset);
  request.op = static_cast<std::uint8_t>(atomic.op);
  request.width = atomic.width;
  request.first = atomic.operand;
  request.second = atomic.compare;
  request.wants_result = returns_value(atomic.op) ? 1 : 0;
  base::Status status;
  if (request.wants_result != 0)
    status = start(peer, request, {.peer = to.peer, .left = 1, .result = result, .channel = to.channel}, ticket);
  else
    status = peers_.post(peer, request, nullptr, 0, done);
  peer.asked = peer.posted;
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
  if (opened == done) return no_memory(-1);
  for (int rank = first; rank < last; ++rank) {
    if (!dirty(rank)) continue;
    Peer& to = peers_.at(rank);
    Message request = message(Kind::flush, {}, 0);
    request.ticket = opened;
    request.first = to.posted;
    const base::Status status = peers_.post(to, request, nullptr, 0, done);
    if (status.ok()) continue;
    tickets_.drop(opened);
    return status;
  }
  ticket = opened;
  return {};
}

void Engine::give_up(Ticket ticket) noexcept {
  const Tickets::Transfer* const transfer = tickets_.known(ticket);
  if (transfer != nullptr && transfer->peer >= 0) peers_.unqueue(transfer->peer, ticket);
}

void Engine::reclaim(Ticket ticket, std::int64_t limit) noexcept {
  const auto held = [&]() noexcept {
    const Tickets::Transfer* const transfer = tickets_.known(ticket);
    return transfer != nullptr && transfer->sending > 0;
  };
  // The link can't take a message back, and copying each one beforehand would cost every put: so wait, as the
  // network is about to take them, and else cut it off.
  while (held() && base::now_ns() < limit) progress_locked();
  if (held()) {
    Peer& peer = peers_.at(tickets_.known(ticket)->peer);
    options_.log.warn("{}: rank {} doesn't take a put that was given up: its connection is cut", link_->traits().name,
                      peer.rank);
    peers_.fail(peer, base::Status::failure(Code::peer_failed, "it took no bytes, and was cut off", peer.rank));
    progress_locked();
  }
  tickets_.drop(ticket);
}

void Engine::abandon(Ticket ticket) noexcept {
  const std::lock_guard guard(lock_);
  give_up(ticket);
  reclaim(ticket, base::now_ns() + longest_reclaim_ns);
}

void Engine::begin_channel(const To& to) {
  const std::lock_guard guard(lock_);
  target_.begin_way(to.peer, to.region);
}

void Engine::end_channel(const To& to) noexcept {
  const std::lock_guard guard(lock_);
  target_.end_way(to.peer, to.region);
  const void* const channel = to.channel;
  std::size_t index = 0;
  for (Ticket ticket = tickets_.next_of(channel, index); ticket != done; ticket = tickets_.next_of(channel, index))
    give_up(ticket);
  const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
  index = 0;
  for (Ticket ticket = tickets_.next_of(channel, index); ticket != done; ticket = tickets_.next_of(channel, index))
    reclaim(ticket, limit);
}

Target::Refusals Engine::refusals() noexcept {
  const std::lock_guard guard(lock_);
  return target_.refusals();
}

std::uint32_t Engine::in_flight(int rank) noexcept {
  const std::lock_guard guard(lock_);
  return peers_.at(rank).in_flight;
}

std::size_t Engine::receives() noexcept {
  const std::lock_guard guard(lock_);
  return regions_.receives();
}

bool Engine::holds_back() noexcept {
  const std::lock_guard guard(lock_);
  return !thread_asleep_;
}

std::uint64_t Engine::messages_to(int rank) noexcept {
  const std::lock_guard guard(lock_);
  return peers_.at(rank).sent;
}

std::size_t Engine::records() noexcept {
  const std::lock_guard guard(lock_);
  return peers_.records();
}

}  // namespace hmc::transport::am
