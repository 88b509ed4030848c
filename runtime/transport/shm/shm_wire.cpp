#include "runtime/transport/shm/shm_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include <hmc/error.hpp>

#include "runtime/base/fences.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::transport {

namespace {

/// Access to one peer's region through a mapping. Every verb has completed when it returns.
class ShmChannel final : public Channel {
 public:
  ShmChannel(std::shared_ptr<base::Segment> segment, std::byte* base, const base::Waiter& waiter, int peer_index)
      : segment_(std::move(segment)), base_(base), waiter_(waiter), peer_index_(peer_index) {}

  std::byte* direct() const noexcept override { return base_; }
  std::shared_ptr<void> mapping() const noexcept override { return segment_; }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    store_bytes(base_ + offset, source, bytes);
    waiter_.ring(peer_index_);
    ticket = done;
    return {};
  }

  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    load_bytes(destination, base_ + offset, bytes);
    ticket = done;
    return {};
  }

  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    store_bytes(base_ + offset, source, bytes);
    store_signal(base_ + signal_offset, value);
    waiter_.ring(peer_index_);
    ticket = done;
    return {};
  }

  base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override {
    const std::uint64_t old = apply_atomic(atomic, base_ + offset);
    if (result != nullptr) std::memcpy(result, &old, atomic.width);
    if (atomic.op != AtomicOp::fetch) waiter_.ring(peer_index_);
    ticket = done;
    return {};
  }

 private:
  std::shared_ptr<base::Segment> segment_;  // keeps the mapping
  std::byte* base_;
  const base::Waiter& waiter_;
  int peer_index_;
};

/// The part of a file that a rank has mapped.
struct Mapping {
  base::Segment::Identity file;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  static constexpr auto fields = std::tuple(&Mapping::file, &Mapping::file_offset, &Mapping::bytes);
  friend bool operator==(const Mapping&, const Mapping&) = default;
};
Mapping mapping_of(const base::Segment& segment) {
  return {segment.identity(), segment.file_offset(), segment.bytes()};
}

/// The content of a key: the mapping, and the region's position in it.
struct Place {
  Mapping mapping;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t share = 0;  ///< number of the exchange for this window, used if segments must be passed
  static constexpr auto fields = std::tuple(&Place::mapping, &Place::offset, &Place::bytes, &Place::share);
};

Place decode(base::ByteView key, int peer) {
  const auto place = base::decode<Place>(key);
  if (!place) throw Error(Code::refused, "shm", fmt::format("rank {} sent a memory key of {} bytes", peer, key.size()));
  return *place;
}

}  // namespace

ShmWire::ShmWire(int rank, base::NodeLink& link, const base::Waiter& waiter)
    : rank_(rank), link_(link), waiter_(waiter) {}

Capabilities ShmWire::capabilities() const noexcept {
  return {.direct = true, .needs_target = false, .one_sided = true, .put_inline_max = SIZE_MAX};
}

int ShmWire::local_index(int peer) const noexcept {
  const auto& members = link_.members();
  const auto found = std::lower_bound(members.begin(), members.end(), peer);
  if (found == members.end() || *found != peer) return -1;
  return static_cast<int>(found - members.begin());
}

Reachability ShmWire::reaches(int peer) const {
  if (peer == rank_) return {true, "its own memory"};
  if (local_index(peer) >= 0) return {true, "same node: its memory is mapped here"};
  return {false, "on another node"};
}

base::Bytes ShmWire::register_region(const Region& mine) {
  if (mine.segment == nullptr) return {};
  return base::encode(Place{mapping_of(*mine.segment), mine.segment_offset, mine.bytes, link_.next_share()});
}

std::vector<std::unique_ptr<Channel>> ShmWire::connect(const Region& mine, std::span<const base::Bytes> keys,
                                                       std::span<const int> peers, base::Deadline deadline) {
  if (peers.empty()) return {};
  // The window's ranks on this node are each other's peers and have the same keys, so all take the same branch.
  base::ShareGroup group{{peers.begin(), peers.end()}, 0};
  std::sort(group.members.begin(), group.members.end());
  bool one_segment = true;
  for (const int member : group.members) {
    const Place place = decode(keys[static_cast<std::size_t>(member)], member);
    if (member == group.members.front()) group.number = place.share;
    one_segment = one_segment && mine.segment != nullptr && place.mapping == mapping_of(*mine.segment);
  }
  std::vector<std::shared_ptr<base::Segment>> segments;
  if (!one_segment) segments = link_.share_within(group, mine.segment, deadline);

  std::vector<std::unique_ptr<Channel>> channels;
  for (const int peer : peers) {
    const auto in_group = std::lower_bound(group.members.begin(), group.members.end(), peer) - group.members.begin();
    const auto segment = one_segment ? mine.segment : segments[static_cast<std::size_t>(in_group)];
    const Place place = decode(keys[static_cast<std::size_t>(peer)], peer);
    if (segment == nullptr || !(mapping_of(*segment) == place.mapping) || place.bytes > segment->bytes() ||
        place.offset > segment->bytes() - place.bytes) {
      throw Error(Code::refused, "shm", fmt::format("the memory of rank {} isn't what its key says", peer));
    }
    channels.push_back(
        std::make_unique<ShmChannel>(segment, segment->base() + place.offset, waiter_, local_index(peer)));
  }
  return channels;
}

base::Status ShmWire::fence() noexcept {
  base::store_fence();
  return {};
}

base::Status ShmWire::flush(int, Ticket& ticket) noexcept {
  base::full_fence();
  ticket = done;
  return {};
}

}  // namespace hmc::transport
