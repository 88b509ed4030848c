#include "runtime/transport/rdma/rdma_wire.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/load_store.hpp"

namespace hmc::transport::rdma {

namespace {

/// Transfers of unregistered memory below this size are copied through bounce buffers, which is faster than a
/// registration (docs/decisions.md).
constexpr std::size_t registered_min = 64 * 1024;
/// Large transfers are requests of this size, distributed over the queue pairs.
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
constexpr std::uint32_t most_attempts = 10'000'000;
constexpr std::int64_t longest_reclaim_ns = 1'000'000'000;
constexpr std::int64_t longest_close_ns = 500'000'000;
constexpr int region_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

std::uint64_t number_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

ibv_send_wr transfer(ibv_wr_opcode opcode, ibv_sge* part, std::uint64_t remote, std::uint32_t key) noexcept {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.sg_list = part;
  request.num_sge = part != nullptr ? 1 : 0;
  request.wr.rdma = {remote, key};
  return request;
}

base::Status no_memory(int peer) noexcept {
  return base::Status::failure(Code::out_of_memory, "no memory for a transfer", peer);
}

/// Between polls that found nothing: other threads of a busy core run.
void idle(unsigned& rounds) noexcept {
  if (++rounds % 64 == 0)
    ::sched_yield();
  else
    base::cpu_relax();
}

}  // namespace

/// Access to a region of one peer.
class RdmaWire::Channel final : public transport::Channel {
 public:
  Channel(RdmaWire& wire, Peer& to, std::uint64_t region_base, std::uint32_t region_key) noexcept
      : peer(to), base(region_base), key(region_key), wire_(wire) {}
  ~Channel() override {
    const std::int64_t limit = base::now_ns() + longest_reclaim_ns;
    std::size_t index = 0;
    for (Ticket ticket = wire_.transfers_.next_of(this, index); ticket != done;
         ticket = wire_.transfers_.next_of(this, index))
      wire_.reclaim(ticket, limit);
  }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    return wire_.write(*this, offset, static_cast<const std::byte*>(source), bytes, nullptr, 0, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    return wire_.read(*this, offset, static_cast<std::byte*>(destination), bytes, ticket);
  }
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    ticket = done;
    return wire_.write(*this, offset, static_cast<const std::byte*>(source), bytes, &value, signal_offset, ticket);
  }
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      Ticket& ticket) noexcept override {
    ticket = done;
    return wire_.atomic(*this, atomic, offset, result, ticket);
  }

  Peer& peer;
  const std::uint64_t base;
  const std::uint32_t key;

 private:
  RdmaWire& wire_;
};

RdmaWire::RdmaWire(const Options& options) : options_(options), connections_(options), buffers_(connections_.device()) {
  if (!device().has_atomics())
    throw Error(Code::unavailable, "verbs", fmt::format("{} has no atomics", device().description()));
}

RdmaWire::~RdmaWire() {
  // Unsignalled puts may be in flight. A destroyed queue pair would drop them.
  const std::int64_t limit = base::now_ns() + longest_close_ns;
  for (Peer* const peer : open_) {
    for (const auto& pair : peer->pairs) {
      if (!pair->is_covered() && pair->has_room(1) && peer->failure.ok()) cover(*peer, *pair, done);
      while (!pair->is_idle() && base::now_ns() < limit) progress();
    }
  }
}

Capabilities RdmaWire::capabilities() const noexcept {
  Capabilities capabilities;
  capabilities.put_inline_max = BounceBuffers::bytes;
  capabilities.atomic_with_cpu = device().attributes().atomic_cap == IBV_ATOMIC_GLOB;
  return capabilities;
}

void RdmaWire::set_peer_addresses(std::vector<base::Bytes> addresses) {
  open_.reserve(addresses.size());  // so that open() doesn't allocate
  for (std::size_t rank = 0; rank < addresses.size(); ++rank)
    if (addresses[rank].empty()) without_ = static_cast<int>(rank);
  connections_.set_addresses(addresses);
}

base::Bytes RdmaWire::offer(int number) {
  open_.reserve(static_cast<std::size_t>(options_.size));  // so that open() doesn't allocate
  return connections_.offer(number);
}

void RdmaWire::remove_peer(int number) noexcept {
  if (number >= connections_.count()) return;  // nothing was offered yet
  Peer& peer = connections_.at(number);
  connections_.refuse(peer);
  if (peer.failure.ok()) peer.failure = base::Status::failure(Code::peer_failed, "the peer was removed", number);
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
    options_.log.warn("verbs: requests of the removed peer {} don't complete: its number isn't used again", number);
    return;
  }
  std::erase(open_, &peer);
  connections_.forget(peer);
}

Reach RdmaWire::reaches(int peer) const {
  // For all ranks or for none: the atomics on a rank's words must not be divided between a device and a CPU.
  if (without_ >= 0 || peer < 0 || peer >= connections_.count() || !connections_.at(peer).has_address)
    return {false, fmt::format("rank {} has no verbs wire", without_ >= 0 ? without_ : peer)};
  return {true, fmt::format("RDMA by {}; 64-bit fetch-add and compare-swap by the device, other atomics by loops of "
                            "compare-swaps",
                            device().description())};
}

base::Bytes RdmaWire::register_region(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, "verbs", "this wire reaches host memory only");
  Registered region{mine.base, mine.bytes, nullptr};
  base::ByteWriter key;
  if (mine.bytes > 0) {
    // An atomic on a 32-bit word is a compare-swap of the 8 bytes around it, which may exceed the region.
    const std::size_t before = number_of(mine.base) % 8;
    region.registration =
        device().register_memory(mine.base - before, base::round_up(before + mine.bytes, 8), region_access);
    if (region.registration == nullptr)
      throw_errno(fmt::format("can't register {} bytes with {}", mine.bytes, device().description()).c_str(), errno);
  }
  key.number(number_of(mine.base)).number(mine.bytes > 0 ? region.registration->rkey : 0U);
  regions_.push_back(std::move(region));
  retired_.reserve(retired_.size() + regions_.size());  // so that retire_region() doesn't allocate
  return key.take();
}

std::vector<std::unique_ptr<transport::Channel>> RdmaWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                                   std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<transport::Channel>> channels;
  for (const int peer : peers) {
    base::ByteReader in(keys[static_cast<std::size_t>(peer)]);
    const auto address = in.number<std::uint64_t>();
    const auto key = in.number<std::uint32_t>();
    if (!in.complete()) throw Error(Code::refused, "verbs", fmt::format("rank {} sent a malformed memory key", peer));
    channels.push_back(std::make_unique<Channel>(*this, connections_.at(peer), address, key));
  }
  return channels;
}

void RdmaWire::deregister_region(const Region& mine) noexcept {
  const auto region = std::ranges::find_if(
      regions_, [&](const Registered& one) { return one.base == mine.base && one.bytes == mine.bytes; });
  if (region != regions_.end()) regions_.erase(region);
}

void RdmaWire::retire_region(const Region& mine) noexcept {
  const auto region = std::ranges::find_if(
      regions_, [&](const Registered& one) { return one.base == mine.base && one.bytes == mine.bytes; });
  if (region == regions_.end()) return;
  retired_.push_back(std::move(region->registration));
  regions_.erase(region);
}

const RdmaWire::Registered* RdmaWire::registered(const std::byte* memory, std::size_t bytes) const noexcept {
  for (const Registered& region : regions_)
    if (memory >= region.base && bytes <= region.bytes &&
        static_cast<std::size_t>(memory - region.base) <= region.bytes - bytes)
      return &region;
  return nullptr;
}

// ---- queue pairs

base::Status RdmaWire::open(Peer& peer) noexcept {
  if (!peer.failure.ok()) return peer.failure;
  const base::Status status = connections_.connect(peer);
  if (!status.ok()) return status;
  peer.is_open = true;
  open_.push_back(&peer);
  return {};
}

template <typename Busy> base::Status RdmaWire::drain(const Peer* peer, Busy&& busy) noexcept {
  unsigned rounds = 0;
  while (busy()) {
    if (peer != nullptr && !peer->failure.ok()) return peer->failure;
    if (progress() > 0) continue;
    idle(rounds);
    if (options_.waiter == nullptr || rounds % 1024 != 0) continue;
    if (const base::Status aborted = options_.waiter->page().aborted(); !aborted.ok()) return aborted;
  }
  return {};
}

base::Status RdmaWire::reserve(Peer& peer, QueuePair& pair, std::uint32_t requests) noexcept {
  if (pair.has_room(requests)) [[likely]]
    return peer.failure;
  const base::Status status = drain(&peer, [&] { return !pair.has_room(requests); });
  return status.ok() ? peer.failure : status;
}

base::Status RdmaWire::take_buffer(Peer& peer, std::uint16_t& number) noexcept {
  unsigned rounds = 0;
  while (buffers_.is_empty()) {
    for (Peer* const other : open_)
      for (const auto& pair : other->pairs)
        if (other->failure.ok() && !pair->is_covered() && pair->has_room(1)) cover(*other, *pair, done);
    if (progress() == 0) idle(rounds);
    if (!peer.failure.ok()) return peer.failure;
  }
  number = buffers_.take();
  return {};
}

void RdmaWire::cover(Peer& peer, QueuePair& pair, Ticket ticket) noexcept {
  ibv_send_wr request = transfer(IBV_WR_RDMA_WRITE, nullptr, 0, 0);
  pair.add(request, {.kind = ticket != done ? Record::Kind::ticket : Record::Kind::none, .ticket = ticket}, true);
  post(peer, pair, request);
}

void RdmaWire::post(Peer& peer, QueuePair& pair, ibv_send_wr& first) noexcept {
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

// ---- put and get

base::Status RdmaWire::write(const Channel& to, std::uint64_t offset, const std::byte* source, std::size_t bytes,
                             const std::uint64_t* signal, std::uint64_t signal_offset, Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  if (const base::Status status = ready(peer); !status.ok()) [[unlikely]]
    return status;
  QueuePair& pair = *peer.pairs.front();
  // The device executes the writes of one queue pair in order, so the signal follows the bytes.
  ibv_sge value{number_of(signal), 8, 0};
  ibv_send_wr last = transfer(IBV_WR_RDMA_WRITE, &value, to.base + signal_offset, to.key);
  last.send_flags = IBV_SEND_INLINE;
  const std::uint32_t signals = signal != nullptr ? 1 : 0;
  std::uint64_t remote = to.base + offset;

  if (bytes <= pair.inline_max()) {
    if (const base::Status status = reserve(peer, pair, 1 + signals); !status.ok()) return status;
    if (bytes > 0) {
      ibv_sge part{number_of(source), static_cast<std::uint32_t>(bytes), 0};
      ibv_send_wr request = transfer(IBV_WR_RDMA_WRITE, &part, remote, to.key);
      request.send_flags = IBV_SEND_INLINE;
      pair.add(request, {}, false);
      if (signals != 0) {
        pair.add(last, {}, false);
        request.next = &last;
      }
      post(peer, pair, request);
    } else if (signals != 0) {
      pair.add(last, {}, false);
      post(peer, pair, last);
    }
    return peer.failure;
  }

  if (bytes > BounceBuffers::bytes) {
    // The device only reads the source.
    std::byte* const local = const_cast<std::byte*>(source);
    base::Status status = base::Status::in_progress();
    if (const Registered* const region = registered(source, bytes); region != nullptr) {
      status = move(to, IBV_WR_RDMA_WRITE, remote, local, bytes, region->registration->lkey, nullptr, ticket);
    } else if (bytes >= registered_min) {
      Owned<ibv_mr> registration = device().register_memory(source, bytes, 0);
      const std::uint32_t key = registration != nullptr ? registration->lkey : 0;
      if (registration != nullptr)  // otherwise the limit of locked memory is reached: copy
        status = move(to, IBV_WR_RDMA_WRITE, remote, local, bytes, key, std::move(registration), ticket);
    }
    if (status.code != Code::in_progress) {
      if (!status.ok() || signals == 0) return status;
      // Other queue pairs aren't ordered with this one.
      status = drain(&peer, [&] { return peer.stripes > 0; });
      if (status.ok()) status = reserve(peer, pair, 1);
      if (!status.ok()) {
        abandon(std::exchange(ticket, done));
        return status;
      }
      pair.add(last, {}, false);
      post(peer, pair, last);
      return peer.failure;
    }
  }

  while (bytes > 0) {
    const std::size_t now = std::min<std::size_t>(bytes, BounceBuffers::bytes);
    std::uint16_t buffer = 0;
    base::Status status = reserve(peer, pair, 1 + signals);
    // Both wait, so check the queue again: take_buffer() may have used its space.
    if (status.ok()) status = take_buffer(peer, buffer);
    if (status.ok()) status = reserve(peer, pair, 1 + signals);
    if (!status.ok()) {
      if (buffer != 0) buffers_.give_back(buffer);
      return status;
    }
    std::memcpy(buffers_.at(buffer), source, now);
    ibv_sge part{number_of(buffers_.at(buffer)), static_cast<std::uint32_t>(now), buffers_.key()};
    ibv_send_wr request = transfer(IBV_WR_RDMA_WRITE, &part, remote, to.key);
    pair.add(request, {.slot = buffer}, false);
    source += now;
    remote += now;
    bytes -= now;
    if (bytes == 0 && signals != 0) {
      pair.add(last, {}, false);
      request.next = &last;
    }
    post(peer, pair, request);
  }
  return peer.failure;
}

base::Status RdmaWire::read(const Channel& to, std::uint64_t offset, std::byte* destination, std::size_t bytes,
                            Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  if (const base::Status status = ready(peer); !status.ok()) [[unlikely]]
    return status;
  has_reads_ = true;
  const std::uint64_t remote = to.base + offset;
  if (const Registered* const region = registered(destination, bytes); region != nullptr)
    return move(to, IBV_WR_RDMA_READ, remote, destination, bytes, region->registration->lkey, nullptr, ticket);
  if (bytes >= registered_min) {
    Owned<ibv_mr> registration = device().register_memory(destination, bytes, IBV_ACCESS_LOCAL_WRITE);
    const std::uint32_t key = registration != nullptr ? registration->lkey : 0;
    if (registration != nullptr)
      return move(to, IBV_WR_RDMA_READ, remote, destination, bytes, key, std::move(registration), ticket);
  }

  QueuePair& pair = *peer.pairs.front();
  const std::size_t pieces = (bytes + BounceBuffers::bytes - 1) / BounceBuffers::bytes;
  const Ticket opened = transfers_.open(peer.rank, static_cast<std::uint32_t>(pieces), &to);
  if (opened == done) return no_memory(peer.rank);
  for (std::size_t at = 0; at < bytes; at += BounceBuffers::bytes) {
    const std::size_t now = std::min<std::size_t>(bytes - at, BounceBuffers::bytes);
    std::uint16_t buffer = 0;
    base::Status status = take_buffer(peer, buffer);
    if (status.ok()) status = reserve(peer, pair, 1);
    if (!status.ok()) {
      if (buffer != 0) buffers_.give_back(buffer);
      transfers_.release(opened);
      return status;
    }
    ibv_sge part{number_of(buffers_.at(buffer)), static_cast<std::uint32_t>(now), buffers_.key()};
    ibv_send_wr request = transfer(IBV_WR_RDMA_READ, &part, remote + at, to.key);
    const Record record{.kind = Record::Kind::copy_out,
                        .slot = buffer,
                        .bytes = static_cast<std::uint32_t>(now),
                        .destination = destination + at,
                        .ticket = opened};
    pair.add(request, record, at + now == bytes);
    post(peer, pair, request);
  }
  ticket = opened;
  return {};
}

base::Status RdmaWire::move(const Channel& to, ibv_wr_opcode opcode, std::uint64_t remote, std::byte* local,
                            std::size_t bytes, std::uint32_t key, Owned<ibv_mr> registration, Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  const std::size_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  if (peer.is_fenced && chunks > 1) {
    QueuePair& first = *peer.pairs.front();
    base::Status status = reserve(peer, first, 1);
    if (status.ok() && !first.is_covered()) cover(peer, first, done);
    if (status.ok()) status = drain(&peer, [&] { return !first.is_idle(); });
    if (!status.ok()) return status;
    peer.is_fenced = false;
  }
  const Ticket opened = transfers_.open(peer.rank, static_cast<std::uint32_t>(chunks), &to);
  if (opened == done) return no_memory(peer.rank);
  Transfer& transfer_of = *transfers_.find(opened);
  transfer_of.pinned = true;
  transfer_of.registration = std::move(registration);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t index = chunk % peer.pairs.size();
    QueuePair& pair = *peer.pairs[index];
    if (const base::Status status = reserve(peer, pair, 1); !status.ok()) {
      // The requests in flight fail soon. The last completion releases the caller's memory.
      if (Transfer* const failed = transfers_.find(opened); failed != nullptr) {
        failed->left -= static_cast<std::uint32_t>(chunks - chunk);
        failed->status = status;
      }
      reclaim(opened, base::now_ns() + longest_reclaim_ns);
      return status;
    }
    const std::size_t at = chunk * chunk_bytes;
    const std::size_t now = std::min(bytes - at, chunk_bytes);
    ibv_sge part{number_of(local + at), static_cast<std::uint32_t>(now), key};
    ibv_send_wr request = transfer(opcode, &part, remote + at, to.key);
    const bool is_stripe = index > 0;
    pair.add(request, {.kind = Record::Kind::ticket, .is_stripe = is_stripe, .ticket = opened}, true);
    peer.stripes += is_stripe ? 1 : 0;
    stripes_ += is_stripe ? 1 : 0;
    post(peer, pair, request);
  }
  ticket = opened;
  return {};
}

// ---- atomics

base::Status RdmaWire::atomic(const Channel& to, const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                              Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  base::Status status = ready(peer);
  QueuePair* const pair = status.ok() ? peer.pairs.front().get() : nullptr;
  if (status.ok()) status = reserve(peer, *pair, 1);
  if (!status.ok()) [[unlikely]]
    return status;
  has_reads_ = true;
  const bool adds = atomic.op == AtomicOp::fetch_add || atomic.op == AtomicOp::add || atomic.op == AtomicOp::fetch;
  const bool is_native = atomic.width == 8 && (adds || atomic.op == AtomicOp::compare_swap);
  if (is_native && atomic.op == AtomicOp::add) {  // the result isn't used
    ibv_sge part = pair->next_result();
    ibv_send_wr request = transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, &part, 0, 0);
    request.wr.atomic = {to.base + offset, atomic.operand, 0, to.key};
    pair->add(request, {}, false);
    post(peer, *pair, request);
    return peer.failure;
  }
  const Ticket opened = transfers_.open(peer.rank, 1, &to);
  if (opened == done) return no_memory(peer.rank);
  Transfer& transfer_of = *transfers_.find(opened);
  transfer_of.result = returns_value(atomic.op) ? result : nullptr;
  transfer_of.width = atomic.width;
  ticket = opened;
  if (is_native) {
    ibv_sge part = pair->next_result();
    const bool swaps = atomic.op == AtomicOp::compare_swap;
    ibv_send_wr request = transfer(swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, &part, 0, 0);
    request.wr.atomic = {to.base + offset,
                         swaps                          ? atomic.compare
                         : atomic.op == AtomicOp::fetch ? 0
                                                        : atomic.operand,
                         atomic.operand, to.key};
    pair->add(request, {.kind = Record::Kind::atomic, .ticket = opened}, true);
    post(peer, *pair, request);
    return {};
  }
  AtomicLoop& loop = transfer_of.loop;
  transfer_of.is_loop = true;
  loop.atomic = atomic;
  loop.byte = static_cast<std::uint8_t>((to.base + offset) % 8);
  loop.word = to.base + offset - loop.byte;
  loop.rkey = to.key;
  ++loops_;
  post_loop(peer, opened);
  return {};
}

void RdmaWire::post_loop(Peer& peer, Ticket ticket) noexcept {
  AtomicLoop& loop = transfers_.find(ticket)->loop;
  QueuePair& pair = *peer.pairs.front();
  alignas(8) std::uint64_t word = loop.guess;
  apply_atomic(loop.atomic, reinterpret_cast<std::byte*>(&word) + loop.byte);
  loop.desired = word;
  ibv_sge part = pair.next_result();
  ibv_send_wr request = transfer(IBV_WR_ATOMIC_CMP_AND_SWP, &part, 0, 0);
  request.wr.atomic = {loop.word, loop.guess, loop.desired, loop.rkey};
  pair.add(request, {.kind = Record::Kind::loop, .ticket = ticket}, true);
  post(peer, pair, request);
}

void RdmaWire::continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept {
  Transfer* const transfer = transfers_.find(ticket);
  base::Status outcome = status;
  if (transfer != nullptr && outcome.ok()) {
    AtomicLoop& loop = transfer->loop;
    bool is_done = seen == loop.guess;
    if (!is_done) {
      loop.guess = seen;
      alignas(8) std::uint64_t word = seen;
      apply_atomic(loop.atomic, reinterpret_cast<std::byte*>(&word) + loop.byte);
      is_done = word == seen;  // the operation changes nothing, so the value seen is its result
    }
    if (!is_done && !peer.failure.ok()) outcome = peer.failure;
    if (!is_done && outcome.ok() && ++loop.attempts == most_attempts)
      outcome = base::Status::failure(Code::error, "an atomic lost every compare-swap against other ranks", peer.rank);
    // The completed request has left a place in the queue.
    if (!is_done && outcome.ok()) return post_loop(peer, ticket);
    if (outcome.ok() && transfer->result != nullptr) {
      *transfer->result = 0;
      std::memcpy(transfer->result, reinterpret_cast<const std::byte*>(&seen) + loop.byte, loop.atomic.width);
    }
  }
  --loops_;
  transfers_.advance(ticket, outcome);
}

// ---- completion

int RdmaWire::progress() noexcept {
  ibv_wc completions[32];
  const int count = ::ibv_poll_cq(connections_.completions(), 32, completions);
  for (int i = 0; i < count; ++i) complete(completions[i]);
  return std::max(count, 0);
}

void RdmaWire::complete(const ibv_wc& completion, bool fails_all) noexcept {
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
          *transfer->result = result;
        transfers_.advance(record.ticket, status);
        break;
      case Record::Kind::loop: continue_loop(peer, record.ticket, result, status); break;
    }
    if (record.slot != 0) buffers_.give_back(record.slot);
  });
}

void RdmaWire::fail(Peer& peer, const char* why) noexcept {
  if (!peer.failure.ok()) return;
  peer.failure = base::Status::failure(Code::peer_failed, why, peer.rank);
  options_.log.info("verbs: rank {} failed: {}", peer.rank, why);
  for (const auto& pair : peer.pairs) pair->fail();
}

base::Status RdmaWire::fence() noexcept {
  // One queue pair keeps writes in order. READs and atomics are ordered by the fence flag of the next request.
  if (!has_reads_ && options_.queue_pairs == 1) [[likely]]
    return {};
  const base::Status status = drain(nullptr, [&] { return stripes_ > 0 || loops_ > 0; });
  for (Peer* const peer : open_) {
    peer->pairs.front()->fence();
    peer->is_fenced = peer->pairs.size() > 1;
  }
  has_reads_ = false;
  return status;
}

base::Status RdmaWire::flush(int rank, Ticket& ticket) noexcept {
  ticket = done;
  if (loops_ > 0)
    if (const base::Status status = drain(nullptr, [&] { return loops_ > 0; }); !status.ok()) return status;
  const auto concerns = [&](const Peer& peer) { return rank < 0 || peer.rank == rank; };
  std::uint32_t count = 0;
  for (Peer* const peer : open_) {
    if (!concerns(*peer)) continue;
    if (!peer->failure.ok()) {
      if (std::exchange(peer->is_failure_reported, true) && rank < 0) continue;
      return peer->failure;
    }
    for (const auto& pair : peer->pairs) count += pair->is_idle() ? 0 : 1;
  }
  if (count == 0) return {};
  // One more than the requests counted, so that the ticket stays valid until all are posted.
  const Ticket opened = transfers_.open(rank, count + 1, nullptr);
  if (opened == done) return no_memory(rank);
  std::uint32_t posted = 0;
  for (Peer* const peer : open_) {
    if (!concerns(*peer) || peer->is_failure_reported) continue;
    for (const auto& pair : peer->pairs) {
      if (pair->is_idle()) continue;
      if (const base::Status status = reserve(*peer, *pair, 1); !status.ok()) {
        transfers_.release(opened);
        return status;
      }
      cover(*peer, *pair, opened);
      ++posted;
    }
  }
  // A queue pair may have become idle since it was counted.
  for (; posted <= count; ++posted) transfers_.advance(opened, {});
  if (transfers_.find(opened) != nullptr) ticket = opened;
  return {};
}

void RdmaWire::reclaim(Ticket ticket, std::int64_t limit) noexcept {
  const auto is_held = [&] {
    const Transfer* const transfer = transfers_.find(ticket);
    return transfer != nullptr && transfer->pinned && transfer->left > 0;
  };
  unsigned rounds = 0;
  for (std::uint32_t left = 0; is_held() && base::now_ns() < limit;) {
    if (progress() == 0) idle(rounds);
    const Transfer* const transfer = transfers_.find(ticket);
    if (transfer == nullptr || transfer->left == left) continue;
    left = transfer->left;  // the peer receives: a slow network is no failure
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

void RdmaWire::abandon(Ticket ticket) noexcept { reclaim(ticket, base::now_ns() + longest_reclaim_ns); }

}  // namespace hmc::transport::rdma
