#include "runtime/transport/am/am_wire.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <hmc/error.hpp>

namespace hmc::transport::am {

namespace {

/// Time limit for the link to release the memory from which it reads answers.
constexpr std::int64_t longest_deregister_ns = 1'500'000'000;
/// Time limit for a peer to receive the bytes of an abandoned put that the link holds, at most about 2 MiB.
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
  options.fails_job = context.waiter != nullptr;
  if (context.log != nullptr) options.log = *context.log;
  options.tls = context.tls;
  options.key = context.key;
  return options;
}

AmWire::AmWire(const Options& options, std::unique_ptr<ByteLink> link)
    : options_(options),
      link_(std::move(link)),
      peers_(*link_, tickets_, options.log, options.key),
      secret_(make_nonce()),
      target_(peers_, tickets_, regions_, options.log) {
  link_->serve(*this, options.rank, options.size);
}

AmWire::~AmWire() {
  thread_.reset();
  const std::int64_t limit = base::now_ns() + longest_close_ns;
  while (target_.owes() && base::now_ns() < limit)  // send pending answers to ranks that wait for them
    if (progress_locked() == 0) ::sched_yield();
  peers_.close();
  // Must precede the destruction of the records that the link reads and of the objects that it calls.
  link_->leave(all_left_);
}

base::Bytes AmWire::address() {
  const std::lock_guard guard(lock_);
  return encode_address(secret_, own_rank, link_->address());
}

void AmWire::set_peer_addresses(std::vector<base::Bytes> addresses) {
  const std::lock_guard guard(lock_);
  peers_.create(addresses.size(), static_cast<std::uint32_t>(options_.rank), secret_);
  for (std::size_t rank = 0; rank < addresses.size(); ++rank)
    if (!addresses[rank].empty()) peers_.know(static_cast<int>(rank), addresses[rank]);
}

base::Bytes AmWire::offer(int number) {
  const std::lock_guard guard(lock_);
  // The first offer: a wire outside a job. No message is accepted for a number without an offer.
  if (peers_.count() == 0) peers_.create(static_cast<std::size_t>(options_.size), 0, 0);
  AmPeer& peer = peers_.at(number);
  peer.accepted_secret = make_nonce();
  return encode_address(peer.accepted_secret, static_cast<std::uint32_t>(number), link_->address());
}

void AmWire::add_peer(int number, base::ByteView address) {
  const std::lock_guard guard(lock_);
  peers_.know(number, address);
}

void AmWire::remove_peer(int number) noexcept {
  const std::lock_guard guard(lock_);
  if (number < peers_.count()) peers_.forget(number);  // otherwise nothing was offered yet
}

base::Status AmWire::peer_status(int number) noexcept {
  const std::lock_guard guard(lock_);
  return number < peers_.count() ? peers_.at(number).failure : base::Status{};
}

Reachability AmWire::reaches(int peer) const {
  if (peer < 0 || peer >= peers_.count() || peers_.at(peer).address.empty())
    return {false, fmt::format("that rank has no {} wire", name())};
  return {true, link_->describe()};
}

base::Bytes AmWire::register_region(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, std::string(name()), "this wire reaches host memory only");
  if (!thread_) thread_.emplace(*this, link_->event_fd());
  const std::lock_guard guard(lock_);
  const Regions::Key region = regions_.add(mine.base, mine.bytes);
  base::ByteWriter key;
  key.number(region.index).number(region.nonce);
  return key.take();
}

std::vector<std::unique_ptr<transport::Channel>> AmWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                                 std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<transport::Channel>> channels;
  for (const int peer : peers) {
    const base::Bytes& key = keys[static_cast<std::size_t>(peer)];
    base::ByteReader in(key);
    channels.push_back(make_channel(peer, in));
    if (!in.complete())
      throw Error(Code::refused, std::string(name()),
                  fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
  }
  return channels;
}

Regions::Key AmWire::read_region(base::ByteReader& key) noexcept {
  Regions::Key region;
  region.index = key.number<std::uint64_t>();
  region.nonce = key.number<std::uint64_t>();
  return region;
}

std::unique_ptr<AmWire::Channel> AmWire::make_channel(int peer, base::ByteReader& key) {
  return std::make_unique<Channel>(*this, peer, read_region(key));
}

void AmWire::deregister_region(const Region& mine) noexcept {
  const std::lock_guard guard(lock_);
  Regions::Registered* const region = regions_.of(mine.base, mine.bytes);
  if (region == nullptr) return;
  if (region->uses > 1) {
    --region->uses;
    return;
  }
  region->uses = 0;  // from here on no message finds the region
  region->receives.clear();
  target_.forget(*region);
  const std::int64_t limit = base::now_ns() + longest_deregister_ns;
  while (region->sending > 0 && base::now_ns() < limit) progress_locked();
  if (region->sending == 0) return;
  options_.log.warn("{}: {} messages still read a region that is deregistered: their connections are closed",
                    link_->traits().name, region->sending);
  peers_.fail_readers(*region, base::Status::failure(Code::peer_failed, "it doesn't receive answers"));
  progress_locked();
}

bool AmWire::receive_into(const Region& mine, DirectReceive& receive) noexcept {
  const std::lock_guard guard(lock_);
  Regions::Registered* const region = regions_.of(mine.base, mine.bytes);
  if (region == nullptr) return false;
  receive.count = 0;
  try {
    region->receives.push_back(&receive);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void AmWire::end_receive_into(const Region& mine, DirectReceive& receive) noexcept {
  const std::lock_guard guard(lock_);
  if (Regions::Registered* const region = regions_.of(mine.base, mine.bytes)) std::erase(region->receives, &receive);
}

Message AmWire::message(MessageKind kind, const Regions::Key& region, std::uint64_t offset) noexcept {
  Message message;
  message.kind = kind;
  message.region = region.index;
  message.nonce = region.nonce;
  message.offset = offset;
  return message;
}

base::Status AmWire::ready(const Channel& to) noexcept {
  relieve();
  if (!target_.was_refused(to.peer, to.region)) [[likely]]
    return {};
  return base::Status::failure(Code::error, "the peer hasn't registered that region", to.peer);
}

/// `last` is sent with the last chunk, so its signal follows all bytes.
base::Status AmWire::write(const Channel& to, const void* source, std::uint64_t bytes, const Message& last,
                           Ticket& ticket) noexcept {
  if (const base::Status status = ready(to); !status.ok()) return status;
  Ticket opened = done;
  if (bytes > inline_bytes) {
    opened = tickets_.open({.peer = to.peer, .left = peers_.parts(bytes), .channel = &to});
    if (opened == done) return no_memory(to.peer);
  }
  AmPeer& peer = peers_.at(to.peer);
  // If no other call sends held puts, the progress thread does. If that thread sleeps, don't hold: a wake-up costs more
  // than a separate message.
  const bool hold = last.kind == MessageKind::put && opened == done && !thread_asleep_;
  const base::Status status = peers_.post(peer, last, source, bytes, opened, hold);
  peer.asked = peer.posted;
  if (!status.ok()) {
    progress_locked();  // closes the connection to the peer, so the link releases the earlier chunks
    tickets_.release(opened);
  } else if (tickets_.find(opened) != nullptr) {
    ticket = opened;
  }
  return status;
}

base::Status AmWire::start(AmPeer& peer, const Message& message, const Tickets::Transfer& transfer, Ticket& ticket,
                           bool hold) noexcept {
  const Ticket opened = tickets_.open(transfer);
  if (opened == done) return no_memory(peer.rank);
  Message copy = message;
  copy.ticket = opened;
  const base::Status status = peers_.post(peer, copy, nullptr, 0, done, hold);
  if (!status.ok()) {
    tickets_.release(opened);
    return status;
  }
  // Answers arrive in the order of their requests, so a later flush also covers a get whose caller has abandoned it.
  peer.asked = peer.posted;
  ticket = opened;
  return status;
}

base::Status AmWire::flush(int peer, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  relieve();
  if (peer >= 0) return start_flush(peer, peer + 1, 0, ticket);
  return start_flush(0, peers_.count(), 0, ticket);
}

base::Status AmWire::start_flush(int first, int last, std::uint64_t more, Ticket& ticket) noexcept {
  const auto dirty = [&](int rank) { return peers_.at(rank).asked > peers_.at(rank).flushed; };
  std::uint64_t count = more;
  for (int rank = first; rank < last; ++rank) count += dirty(rank) ? 1U : 0U;
  if (count == 0) return {};
  const Ticket opened = tickets_.open({.peer = last - first == 1 ? first : -1, .left = count});
  if (opened == done) return no_memory(-1);
  for (int rank = first; rank < last; ++rank) {
    if (!dirty(rank)) continue;
    Message request = message(MessageKind::flush, {}, 0);
    request.ticket = opened;
    request.first = peers_.at(rank).posted;
    if (const base::Status status = peers_.post(peers_.at(rank), request, nullptr, 0, done); !status.ok()) {
      tickets_.release(opened);
      return status;
    }
  }
  if (tickets_.known(opened) != nullptr) ticket = opened;
  return {};
}

void AmWire::give_up(Ticket ticket) noexcept {
  const Tickets::Transfer* const transfer = tickets_.known(ticket);
  if (transfer != nullptr && transfer->peer >= 0) peers_.unqueue(transfer->peer, ticket);
}

void AmWire::reclaim(Ticket ticket, std::int64_t limit) noexcept {
  const auto held = [&]() noexcept {
    const Tickets::Transfer* const transfer = tickets_.known(ticket);
    return transfer != nullptr && transfer->sending > 0;
  };
  // The link can't cancel a message, and copying each put beforehand would cost too much. So wait until the network has
  // accepted the bytes; after the limit, close the connection.
  while (held() && base::now_ns() < limit) progress_locked();
  if (held()) {
    AmPeer& peer = peers_.at(tickets_.known(ticket)->peer);
    options_.log.warn("{}: rank {} doesn't receive an abandoned put: its connection is closed", link_->traits().name,
                      peer.rank);
    peers_.fail(peer, base::Status::failure(Code::peer_failed, "it received no data, and its connection was closed",
                                            peer.rank));
    progress_locked();
  }
  tickets_.release(ticket);
}

void AmWire::abandon(Ticket ticket) noexcept {
  const std::lock_guard guard(lock_);
  give_up(ticket);
  reclaim(ticket, base::now_ns() + longest_reclaim_ns);
}

AmWire::Channel::Channel(AmWire& wire, int peer_rank, const Regions::Key& region_key)
    : peer(peer_rank), region(region_key), wire_(wire) {
  const std::lock_guard guard(wire_.lock_);
  wire_.target_.add_channel(peer, region);
}

AmWire::Channel::~Channel() {
  const std::lock_guard guard(wire_.lock_);
  wire_.target_.remove_channel(peer, region);
  abandon_all();
}

void AmWire::Channel::abandon_all() noexcept {
  Tickets& tickets = wire_.tickets_;
  std::size_t index = 0;
  for (Ticket ticket = tickets.next_of(this, index); ticket != done; ticket = tickets.next_of(this, index))
    wire_.give_up(ticket);
  const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
  index = 0;
  for (Ticket ticket = tickets.next_of(this, index); ticket != done; ticket = tickets.next_of(this, index))
    wire_.reclaim(ticket, limit);
}

base::Status AmWire::Channel::put(std::uint64_t offset, const void* source, std::size_t bytes,
                                  Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(wire_.lock_);
  return send_put(offset, source, bytes, ticket);
}

base::Status AmWire::Channel::send_put(std::uint64_t offset, const void* source, std::size_t bytes,
                                       Ticket& ticket) noexcept {
  return wire_.write(*this, source, bytes, wire_.message(MessageKind::put, region, offset), ticket);
}

base::Status AmWire::Channel::put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                         std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(wire_.lock_);
  return send_signal(MessageKind::put_signal, offset, source, bytes, signal_offset, value, ticket);
}

base::Status AmWire::Channel::notify(std::uint64_t offset, const void* source, std::size_t bytes,
                                     std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(wire_.lock_);
  return send_signal(MessageKind::notice, offset, source, bytes, signal_offset, value, ticket);
}

base::Status AmWire::Channel::send_signal(MessageKind kind, std::uint64_t offset, const void* source, std::size_t bytes,
                                          std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  Message last = wire_.message(kind, region, bytes > 0 ? offset : 0);
  last.first = signal_offset;
  last.second = value;
  return wire_.write(*this, source, bytes, last, ticket);
}

base::Status AmWire::Channel::get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(wire_.lock_);
  return send_get(offset, destination, bytes, ticket);
}

base::Status AmWire::Channel::send_get(std::uint64_t offset, void* destination, std::size_t bytes,
                                       Ticket& ticket) noexcept {
  if (const base::Status status = wire_.ready(*this); !status.ok()) return status;
  Message request = wire_.message(MessageKind::get, region, offset);
  request.first = bytes;
  return wire_.start(wire_.peers_.at(peer), request,
                     {.peer = peer,
                      .left = bytes,
                      .destination = static_cast<std::byte*>(destination),
                      .bytes = bytes,
                      .channel = this},
                     ticket);
}

base::Status AmWire::Channel::atomic(const Atomic& atomic, std::uint64_t offset, void* result,
                                     Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(wire_.lock_);
  return send_atomic(atomic, offset, result, ticket);
}

base::Status AmWire::Channel::send_atomic(const Atomic& atomic, std::uint64_t offset, void* result,
                                          Ticket& ticket) noexcept {
  if (const base::Status status = wire_.ready(*this); !status.ok()) return status;
  AmPeer& to = wire_.peers_.at(peer);
  Message request = wire_.message(MessageKind::atomic, region, offset);
  request.op = static_cast<std::uint8_t>(atomic.op);
  request.width = atomic.width;
  request.first = atomic.operand;
  request.second = atomic.compare;
  request.wants_result = returns_value(atomic.op) ? 1 : 0;
  // While a result is due, hold: its arrival makes progress, which sends what is held. So a rank with many atomics in
  // flight sends and receives few messages.
  const bool hold = to.results_due > 0;
  base::Status status;
  if (request.wants_result != 0) {
    status = wire_.start(
        to, request, {.peer = peer, .left = 1, .result = result, .channel = this, .width = atomic.width}, ticket, hold);
    if (status.ok()) ++to.results_due;
  } else {
    status = wire_.peers_.post(to, request, nullptr, 0, done, hold);
  }
  to.asked = to.posted;
  return status;
}

Target::Refusals AmWire::refusals() noexcept {
  const std::lock_guard guard(lock_);
  return target_.refusals();
}

std::uint32_t AmWire::in_flight(int rank) noexcept {
  const std::lock_guard guard(lock_);
  return peers_.at(rank).in_flight;
}

std::size_t AmWire::receives() noexcept {
  const std::lock_guard guard(lock_);
  return regions_.receives();
}

bool AmWire::holds_back() noexcept {
  const std::lock_guard guard(lock_);
  return !thread_asleep_;
}

std::uint64_t AmWire::messages_to(int rank) noexcept {
  const std::lock_guard guard(lock_);
  return peers_.at(rank).sent;
}

std::size_t AmWire::records() noexcept {
  const std::lock_guard guard(lock_);
  return peers_.records();
}

}  // namespace hmc::transport::am
