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

/// Access to a region of one peer.
class AmWire::Channel final : public transport::Channel {
 public:
  Channel(AmWire& wire, int peer, const Regions::Key& region, std::uint64_t base, base::ByteView key);
  ~Channel() override;

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override;
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override;
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override;
  base::Status notify(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                      std::uint64_t value, Ticket& ticket) noexcept override;
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override;

  /// The verbs put, get and put_signal are one-sided. Under the wire's lock.
  bool is_one_sided() const noexcept { return !key.empty(); }

  const int peer;
  const Regions::Key region;
  const std::uint64_t base;  // the region's address at the peer
  base::Bytes key;           // for OneSided; empty: verbs are messages
  std::uint64_t memory = 0;  // the number of OneSided::open(); 0: not opened yet

 private:
  base::Status put_and_signal(MessageKind kind, std::uint64_t offset, const void* source, std::size_t bytes,
                              std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept;
  AmWire& wire_;
};

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
      secret_(make_nonce()),
      link_(std::move(link)),
      peers_(*link_, tickets_, options.log, options.key),
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
  key.number(region.index).number(region.nonce).number(reinterpret_cast<std::uint64_t>(mine.base));
  if (OneSided* const one_sided = link_->one_sided(); one_sided != nullptr && mine.bytes > 0)
    key.blob(one_sided->add(mine.base, mine.bytes));
  else
    key.blob({});
  return key.take();
}

std::vector<std::unique_ptr<transport::Channel>> AmWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                                 std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<transport::Channel>> channels;
  for (const int peer : peers) {
    const base::Bytes& key = keys[static_cast<std::size_t>(peer)];
    base::ByteReader in(key);
    Regions::Key region;
    region.index = in.number<std::uint64_t>();
    region.nonce = in.number<std::uint64_t>();
    const auto base = in.number<std::uint64_t>();
    const base::ByteView one_sided = in.blob();
    if (!in.complete())
      throw Error(Code::refused, std::string(name()),
                  fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
    channels.push_back(std::make_unique<Channel>(*this, peer, region, base,
                                                 link_->one_sided() != nullptr ? one_sided : base::ByteView{}));
  }
  return channels;
}

void AmWire::deregister_region(const Region& mine) noexcept {
  const std::lock_guard guard(lock_);
  if (OneSided* const one_sided = link_->one_sided()) one_sided->remove(mine.base, mine.bytes);
  end_region(mine);
}

void AmWire::retire_region(const Region& mine) noexcept {
  const std::lock_guard guard(lock_);
  end_region(mine);
}

void AmWire::end_region(const Region& mine) noexcept {
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
  if (link_->one_sided() != nullptr) return false;  // puts write to the region itself
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

// ---- one-sided verbs

base::Status AmWire::before_move(Channel& to) noexcept {
  if (const base::Status status = ready(to); !status.ok()) return status;
  AmPeer& peer = peers_.at(to.peer);
  if (const base::Status status = peers_.ready(peer); !status.ok()) return status;
  if (to.memory == 0) [[unlikely]] {
    to.memory = link_->one_sided()->open(to.peer, to.key);
    if (to.memory == 0) {
      options_.log.info("{}: verbs to rank {} are messages: its memory can't be accessed otherwise", name(), to.peer);
      to.key.clear();
      return {};
    }
  }
  // Atomics are messages, which the link doesn't order with one-sided puts.
  if (peer.asked > peer.flushed && peer.atomics_fence < fences_)
    if (const base::Status status = settle(peer); !status.ok()) return status;
  if (peer.moved == peer.moves_flushed) peer.moves_fence = fences_;
  if (ordered_ != fences_) {
    link_->one_sided()->fence();
    ordered_ = fences_;
  }
  return {};
}

base::Status AmWire::settle(AmPeer& peer) noexcept {
  Ticket ticket = done;
  if (const base::Status status = flush_dirty(peer.rank, peer.rank + 1, ticket); !status.ok()) return status;
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
  return peer.failure.ok() ? status : peer.failure;
}

base::Status AmWire::put_one_sided(Channel& to, const void* source, std::uint64_t bytes, std::uint64_t offset,
                                   Ticket& ticket) noexcept {
  AmPeer& peer = peers_.at(to.peer);
  Message put = message(MessageKind::put, {}, to.base + offset);
  put.region = to.memory;
  Ticket opened = done;
  if (bytes > inline_bytes) {
    opened = tickets_.open({.peer = to.peer, .left = 1, .channel = &to});
    if (opened == done) return no_memory(to.peer);
  }
  const base::Status status = peers_.move(peer, put, source, bytes, opened);
  if (!status.ok())
    tickets_.release(opened);
  else if (tickets_.find(opened) != nullptr)
    ticket = opened;
  return status;
}

base::Status AmWire::get_one_sided(Channel& to, void* destination, std::uint64_t bytes, std::uint64_t offset,
                                   Ticket& ticket) noexcept {
  Message get = message(MessageKind::get, {}, to.base + offset);
  get.region = to.memory;
  const Ticket opened = tickets_.open({.peer = to.peer, .left = 1, .channel = &to});
  if (opened == done) return no_memory(to.peer);
  const base::Status status = peers_.move(peers_.at(to.peer), get, destination, bytes, opened);
  if (!status.ok())
    tickets_.release(opened);
  else if (tickets_.find(opened) != nullptr)
    ticket = opened;
  return status;
}

base::Status AmWire::flush(int peer, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  relieve();
  if (peer >= 0) return flush_dirty(peer, peer + 1, ticket);
  return flush_dirty(0, peers_.count(), ticket);
}

base::Status AmWire::flush_dirty(int first, int last, Ticket& ticket) noexcept {
  const auto dirty = [&](int rank) { return peers_.at(rank).asked > peers_.at(rank).flushed; };
  const auto has_moves = [&](int rank) { return peers_.at(rank).moved > peers_.at(rank).moves_flushed; };
  std::uint64_t count = 0;
  for (int rank = first; rank < last; ++rank) count += (dirty(rank) ? 1U : 0U) + (has_moves(rank) ? 1U : 0U);
  if (count == 0) return {};
  const Ticket opened = tickets_.open({.peer = last - first == 1 ? first : -1, .left = count});
  if (opened == done) return no_memory(-1);
  for (int rank = first; rank < last; ++rank) {
    AmPeer& to = peers_.at(rank);
    const bool with_moves = has_moves(rank);
    Message request = message(MessageKind::flush, {}, 0);
    base::Status status;
    if (dirty(rank)) {
      request.ticket = opened;
      request.first = to.posted;
      status = peers_.post(to, request, nullptr, 0, done);
    }
    if (status.ok() && with_moves) status = peers_.move(to, request, nullptr, 0, opened);
    if (status.ok()) continue;
    tickets_.release(opened);
    return status;
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

AmWire::Channel::Channel(AmWire& wire, int peer_rank, const Regions::Key& region_key, std::uint64_t region_base,
                         base::ByteView one_sided)
    : peer(peer_rank), region(region_key), base(region_base), key(one_sided.begin(), one_sided.end()), wire_(wire) {
  const std::lock_guard guard(wire_.lock_);
  wire_.target_.add_channel(peer, region);
}

AmWire::Channel::~Channel() {
  const std::lock_guard guard(wire_.lock_);
  wire_.target_.remove_channel(peer, region);
  Tickets& tickets = wire_.tickets_;
  std::size_t index = 0;
  for (Ticket ticket = tickets.next_of(this, index); ticket != done; ticket = tickets.next_of(this, index))
    wire_.give_up(ticket);
  const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
  index = 0;
  for (Ticket ticket = tickets.next_of(this, index); ticket != done; ticket = tickets.next_of(this, index))
    wire_.reclaim(ticket, limit);
  if (memory != 0) wire_.link_->one_sided()->close(peer, memory);
}

base::Status AmWire::Channel::put(std::uint64_t offset, const void* source, std::size_t bytes,
                                  Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(wire_.lock_);
  if (is_one_sided()) {
    const base::Status status = wire_.before_move(*this);
    if (!status.ok() || is_one_sided())
      return status.ok() ? wire_.put_one_sided(*this, source, bytes, offset, ticket) : status;
  }
  return wire_.write(*this, source, bytes, wire_.message(MessageKind::put, region, offset), ticket);
}

base::Status AmWire::Channel::put_signal(std::uint64_t offset, const void* source, std::size_t bytes,
                                         std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  return put_and_signal(MessageKind::put_signal, offset, source, bytes, signal_offset, value, ticket);
}

base::Status AmWire::Channel::notify(std::uint64_t offset, const void* source, std::size_t bytes,
                                     std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept {
  return put_and_signal(MessageKind::notice, offset, source, bytes, signal_offset, value, ticket);
}

base::Status AmWire::Channel::put_and_signal(MessageKind kind, std::uint64_t offset, const void* source,
                                             std::size_t bytes, std::uint64_t signal_offset, std::uint64_t value,
                                             Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(wire_.lock_);
  if (is_one_sided()) {
    base::Status status = wire_.before_move(*this);
    if (!status.ok()) return status;
    if (is_one_sided()) {
      if (bytes > 0) {
        status = wire_.put_one_sided(*this, source, bytes, offset, ticket);
        wire_.link_->one_sided()->fence();
      }
      Ticket unused = done;
      if (status.ok()) status = wire_.put_one_sided(*this, &value, sizeof value, signal_offset, unused);
      return status;
    }
  }
  Message last = wire_.message(kind, region, bytes > 0 ? offset : 0);
  last.first = signal_offset;
  last.second = value;
  return wire_.write(*this, source, bytes, last, ticket);
}

base::Status AmWire::Channel::get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept {
  ticket = done;
  if (bytes == 0) return {};
  const std::lock_guard guard(wire_.lock_);
  if (is_one_sided()) {
    if (const base::Status status = wire_.before_move(*this); !status.ok()) return status;
    if (is_one_sided()) return wire_.get_one_sided(*this, destination, bytes, offset, ticket);
  }
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
  if (const base::Status status = wire_.ready(*this); !status.ok()) return status;
  AmPeer& to = wire_.peers_.at(peer);
  // The link doesn't order messages with one-sided puts.
  if (to.moved > to.moves_flushed && to.moves_fence < wire_.fences_)
    if (const base::Status status = wire_.settle(to); !status.ok()) return status;
  if (to.asked == to.flushed) to.atomics_fence = wire_.fences_;
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
