#include "runtime/transport/rdma/rdma_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

namespace hmc::transport::rdma {

namespace {

/// Unregistered memory of a transfer below this size is copied through bounce buffers. Larger memory is registered for
/// the call. Not measured on hardware yet (docs/decisions.md).
constexpr std::size_t registered_min = 64 * 1024;
/// Large transfers are requests of this size, distributed over the queue pairs.
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

}  // namespace

/// Access to a region of one peer.
class RdmaWire::Channel final : public transport::Channel {
 public:
  Channel(RdmaWire& wire, Peer& to, std::uint64_t region_base, std::uint32_t region_key) noexcept
      : peer(to), base(region_base), key(region_key), wire_(wire) {}
  ~Channel() override {
    const std::lock_guard guard(wire_.lock_);
    wire_.requests_.reclaim_all(this);
  }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    const std::lock_guard guard(wire_.lock_);
    return wire_.write(*this, offset, static_cast<const std::byte*>(source), bytes, nullptr, 0, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    ticket = done;
    if (bytes == 0) return {};
    const std::lock_guard guard(wire_.lock_);
    return wire_.read(*this, offset, static_cast<std::byte*>(destination), bytes, ticket);
  }
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    ticket = done;
    const std::lock_guard guard(wire_.lock_);
    return wire_.write(*this, offset, static_cast<const std::byte*>(source), bytes, &value, signal_offset, ticket);
  }
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override {
    ticket = done;
    const std::lock_guard guard(wire_.lock_);
    wire_.has_reads_ = true;
    return wire_.atomics_.start(peer, atomic, base + offset, key, this, result, ticket);
  }

  Peer& peer;
  const std::uint64_t base;
  const std::uint32_t key;

 private:
  RdmaWire& wire_;
};

RdmaWire::RdmaWire(const Options& options)
    : options_(options), requests_(options), atomics_(requests_), regions_(requests_.device()) {
  if (!device().has_atomics())
    throw Error(Code::unavailable, "verbs", fmt::format("{} has no atomics", device().description()));
}

Capabilities RdmaWire::capabilities() const noexcept {
  Capabilities capabilities;
  capabilities.one_sided = true;
  capabilities.needs_origin = true;  // loops of compare-swaps
  capabilities.put_inline_max = BounceBuffers::bytes;
  capabilities.atomic_with_cpu = device().attributes().atomic_cap == IBV_ATOMIC_GLOB;
  return capabilities;
}

void RdmaWire::set_peer_addresses(std::vector<base::Bytes> addresses) {
  requests_.reserve_peers(addresses.size());
  for (std::size_t rank = 0; rank < addresses.size(); ++rank)
    if (addresses[rank].empty()) without_ = static_cast<int>(rank);
  connections().set_addresses(addresses);
}

base::Bytes RdmaWire::offer(int number) {
  const std::lock_guard guard(lock_);
  requests_.reserve_peers(static_cast<std::size_t>(options_.size));
  return connections().offer(number);
}

void RdmaWire::remove_peer(int number) noexcept {
  const std::lock_guard guard(lock_);
  if (number < connections().count()) requests_.remove(connections().at(number));  // otherwise nothing was offered yet
}

Reachability RdmaWire::reaches(int peer) const {
  // For all ranks or for none: the atomics on a rank's words must not be divided between a device and a CPU.
  if (without_ >= 0 || peer < 0 || peer >= requests_.connections().count() ||
      !requests_.connections().at(peer).has_address)
    return {false, fmt::format("rank {} has no verbs wire", without_ >= 0 ? without_ : peer)};
  return {true, fmt::format("RDMA by {}; 64-bit fetch-add and compare-swap by the device, other atomics by loops of "
                            "compare-swaps",
                            device().description())};
}

std::vector<std::unique_ptr<transport::Channel>> RdmaWire::connect(const Region&, std::span<const base::Bytes> keys,
                                                                   std::span<const int> peers, base::Deadline) {
  std::vector<std::unique_ptr<transport::Channel>> channels;
  for (const int peer : peers) {
    base::ByteReader in(keys[static_cast<std::size_t>(peer)]);
    const auto address = in.number<std::uint64_t>();
    const auto key = in.number<std::uint32_t>();
    if (!in.complete()) throw Error(Code::refused, "verbs", fmt::format("rank {} sent a malformed memory key", peer));
    channels.push_back(std::make_unique<Channel>(*this, connections().at(peer), address, key));
  }
  return channels;
}

// ---- put and get

base::Status RdmaWire::write(const Channel& to, std::uint64_t offset, const std::byte* source, std::size_t bytes,
                             const std::uint64_t* signal, std::uint64_t signal_offset, Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  if (const base::Status status = requests_.ready(peer); !status.ok()) [[unlikely]]
    return status;
  QueuePair& pair = *peer.pairs.front();
  std::uint64_t remote = to.base + offset;
  if (signal == nullptr && bytes <= pair.inline_max()) {
    if (!pair.has_room(1)) [[unlikely]]
      if (const base::Status status = requests_.reserve(peer, pair, 1); !status.ok()) return status;
    ibv_sge part{number_of(source), static_cast<std::uint32_t>(bytes), 0};
    ibv_send_wr request = make_request(IBV_WR_RDMA_WRITE, &part, remote, to.key);
    request.send_flags = IBV_SEND_INLINE;
    pair.add(request, {}, false);
    requests_.post(peer, pair, request);
    return peer.failure;
  }

  // The device executes the writes of one queue pair in order, so the signal follows the bytes.
  ibv_sge value{number_of(signal), 8, 0};
  ibv_send_wr last = make_request(IBV_WR_RDMA_WRITE, &value, to.base + signal_offset, to.key);
  last.send_flags = IBV_SEND_INLINE;
  const std::uint32_t signals = signal != nullptr ? 1 : 0;

  if (bytes <= pair.inline_max()) {
    if (const base::Status status = requests_.reserve(peer, pair, 2); !status.ok()) return status;
    ibv_sge part{number_of(source), static_cast<std::uint32_t>(bytes), 0};
    ibv_send_wr request = make_request(IBV_WR_RDMA_WRITE, &part, remote, to.key);
    request.send_flags = IBV_SEND_INLINE;
    request.next = &last;
    if (bytes > 0) pair.add(request, {}, false);
    pair.add(last, {}, false);
    requests_.post(peer, pair, bytes > 0 ? request : last);
    return peer.failure;
  }

  if (bytes > BounceBuffers::bytes) {
    // The device only reads the source.
    std::byte* const local = const_cast<std::byte*>(source);
    base::Status status = base::Status::in_progress();
    if (const ibv_mr* const region = regions_.find(source, bytes); region != nullptr) {
      status = move(to, IBV_WR_RDMA_WRITE, remote, local, bytes, region->lkey, nullptr, ticket);
    } else if (bytes >= registered_min) {
      Owned<ibv_mr> registration = device().register_memory(source, bytes, 0);
      const std::uint32_t key = registration != nullptr ? registration->lkey : 0;
      if (registration != nullptr)  // otherwise the limit of locked memory is reached: copy
        status = move(to, IBV_WR_RDMA_WRITE, remote, local, bytes, key, std::move(registration), ticket);
    }
    if (status.code != Code::in_progress) {
      if (!status.ok() || signals == 0) return status;
      // Other queue pairs aren't ordered with this one.
      status = requests_.drain(&peer, [&] { return peer.stripes > 0; });
      if (status.ok()) status = requests_.reserve(peer, pair, 1);
      if (!status.ok()) {
        requests_.reclaim(std::exchange(ticket, done));
        return status;
      }
      pair.add(last, {}, false);
      requests_.post(peer, pair, last);
      return peer.failure;
    }
  }

  while (bytes > 0) {
    const std::size_t now = std::min<std::size_t>(bytes, BounceBuffers::bytes);
    std::uint16_t buffer = 0;
    base::Status status = requests_.reserve(peer, pair, 1 + signals);
    // Both wait, so check the queue again: requests_.take_buffer() may have used its space.
    if (status.ok()) status = requests_.take_buffer(peer, buffer);
    if (status.ok()) status = requests_.reserve(peer, pair, 1 + signals);
    if (!status.ok()) {
      if (buffer != 0) requests_.buffers().give_back(buffer);
      return status;
    }
    std::memcpy(requests_.buffers().at(buffer), source, now);
    ibv_sge part{number_of(requests_.buffers().at(buffer)), static_cast<std::uint32_t>(now), requests_.buffers().key()};
    ibv_send_wr request = make_request(IBV_WR_RDMA_WRITE, &part, remote, to.key);
    pair.add(request, {.slot = buffer}, false);
    source += now;
    remote += now;
    bytes -= now;
    if (bytes == 0 && signals != 0) {
      pair.add(last, {}, false);
      request.next = &last;
    }
    requests_.post(peer, pair, request);
  }
  return peer.failure;
}

base::Status RdmaWire::read(const Channel& to, std::uint64_t offset, std::byte* destination, std::size_t bytes,
                            Ticket& ticket) noexcept {
  Peer& peer = to.peer;
  if (const base::Status status = requests_.ready(peer); !status.ok()) [[unlikely]]
    return status;
  has_reads_ = true;
  const std::uint64_t remote = to.base + offset;
  if (const ibv_mr* const region = regions_.find(destination, bytes); region != nullptr)
    return move(to, IBV_WR_RDMA_READ, remote, destination, bytes, region->lkey, nullptr, ticket);
  if (bytes >= registered_min) {
    Owned<ibv_mr> registration = device().register_memory(destination, bytes, IBV_ACCESS_LOCAL_WRITE);
    const std::uint32_t key = registration != nullptr ? registration->lkey : 0;
    if (registration != nullptr)
      return move(to, IBV_WR_RDMA_READ, remote, destination, bytes, key, std::move(registration), ticket);
  }

  QueuePair& pair = *peer.pairs.front();
  const std::size_t pieces = (bytes + BounceBuffers::bytes - 1) / BounceBuffers::bytes;
  const Ticket opened =
      requests_.transfers().open({.peer = peer.rank, .left = static_cast<std::uint32_t>(pieces), .channel = &to});
  if (opened == done) return no_memory(peer.rank);
  for (std::size_t at = 0; at < bytes; at += BounceBuffers::bytes) {
    const std::size_t now = std::min<std::size_t>(bytes - at, BounceBuffers::bytes);
    std::uint16_t buffer = 0;
    base::Status status = requests_.take_buffer(peer, buffer);
    if (status.ok()) status = requests_.reserve(peer, pair, 1);
    if (!status.ok()) {
      if (buffer != 0) requests_.buffers().give_back(buffer);
      requests_.transfers().release(opened);
      return status;
    }
    ibv_sge part{number_of(requests_.buffers().at(buffer)), static_cast<std::uint32_t>(now), requests_.buffers().key()};
    ibv_send_wr request = make_request(IBV_WR_RDMA_READ, &part, remote + at, to.key);
    const Record record{.kind = Record::Kind::copy_out,
                        .slot = buffer,
                        .bytes = static_cast<std::uint32_t>(now),
                        .destination = destination + at,
                        .ticket = opened};
    pair.add(request, record, at + now == bytes);
    requests_.post(peer, pair, request);
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
    base::Status status = requests_.reserve(peer, first, 1);
    if (status.ok() && !first.is_covered()) requests_.cover(peer, first, done);
    if (status.ok()) status = requests_.drain(&peer, [&] { return !first.is_idle(); });
    if (!status.ok()) return status;
    peer.is_fenced = false;
  }
  const Ticket opened =
      requests_.transfers().open({.peer = peer.rank, .left = static_cast<std::uint32_t>(chunks), .channel = &to});
  if (opened == done) return no_memory(peer.rank);
  Transfer& transfer_of = *requests_.transfers().find(opened);
  transfer_of.pinned = true;
  transfer_of.registration = std::move(registration);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t index = chunk % peer.pairs.size();
    QueuePair& pair = *peer.pairs[index];
    if (const base::Status status = requests_.reserve(peer, pair, 1); !status.ok()) {
      // The requests in flight fail soon. The last completion releases the caller's memory.
      if (Transfer* const failed = requests_.transfers().find(opened); failed != nullptr) {
        failed->left -= static_cast<std::uint32_t>(chunks - chunk);
        failed->status = status;
      }
      requests_.reclaim(opened);
      return status;
    }
    const std::size_t at = chunk * chunk_bytes;
    const std::size_t now = std::min(bytes - at, chunk_bytes);
    ibv_sge part{number_of(local + at), static_cast<std::uint32_t>(now), key};
    ibv_send_wr request = make_request(opcode, &part, remote + at, to.key);
    const bool is_stripe = index > 0;
    if (is_stripe) requests_.add_stripe(peer);
    pair.add(request, {.kind = Record::Kind::ticket, .is_stripe = is_stripe, .ticket = opened}, true);
    requests_.post(peer, pair, request);
  }
  ticket = opened;
  return {};
}

// ---- completion

int RdmaWire::progress() noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  return guard.owns_lock() ? requests_.progress() : 0;  // otherwise the other thread makes progress
}

base::Status RdmaWire::fence() noexcept {
  const std::lock_guard guard(lock_);
  // One queue pair keeps writes in order. READs and atomics are ordered by the fence flag of the next request.
  if (!has_reads_ && options_.queue_pairs == 1) [[likely]]
    return {};
  const base::Status status = requests_.drain(nullptr, [&] {
    return requests_.stripes() > 0 ||
           std::ranges::any_of(requests_.open_peers(), [](const Peer* peer) { return peer->loops > 0; });
  });
  for (Peer* const peer : requests_.open_peers()) {
    peer->pairs.front()->fence();
    peer->is_fenced = peer->pairs.size() > 1;
  }
  has_reads_ = false;
  return status;
}

base::Status RdmaWire::flush(int rank, Ticket& ticket) noexcept {
  ticket = done;
  const std::lock_guard guard(lock_);
  const auto concerns = [&](const Peer& peer) { return rank < 0 || peer.rank == rank; };
  const auto loops = [&] {
    return std::ranges::any_of(requests_.open_peers(),
                               [&](const Peer* peer) { return concerns(*peer) && peer->loops > 0; });
  };
  if (const base::Status status = requests_.drain(nullptr, loops); !status.ok()) return status;
  std::uint32_t count = 0;
  for (Peer* const peer : requests_.open_peers()) {
    if (!concerns(*peer)) continue;
    if (!peer->failure.ok()) {
      if (std::exchange(peer->is_failure_reported, true) && rank < 0) continue;
      return peer->failure;
    }
    for (const auto& pair : peer->pairs) count += pair->is_idle() ? 0 : 1;
  }
  if (count == 0) return {};
  // One more than the requests counted, so that the ticket stays valid until all are posted.
  const Ticket opened = requests_.transfers().open({.peer = rank, .left = count + 1});
  if (opened == done) return no_memory(rank);
  std::uint32_t posted = 0;
  for (Peer* const peer : requests_.open_peers()) {
    if (!concerns(*peer) || peer->is_failure_reported) continue;
    for (const auto& pair : peer->pairs) {
      if (pair->is_idle()) continue;
      if (pair->attach(opened)) {
        ++posted;
        continue;
      }
      if (const base::Status status = requests_.reserve(*peer, *pair, 1); !status.ok()) {
        requests_.transfers().release(opened);
        return status;
      }
      requests_.cover(*peer, *pair, opened);
      ++posted;
    }
  }
  // A queue pair may have become idle since it was counted.
  for (; posted <= count; ++posted) requests_.transfers().advance(opened, {});
  if (requests_.transfers().known(opened) != nullptr) ticket = opened;
  return {};
}

}  // namespace hmc::transport::rdma
