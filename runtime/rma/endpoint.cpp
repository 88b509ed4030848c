#include "runtime/rma/endpoint.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/wait.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::rma {

using base::Status;
using transport::done;

struct Endpoint::Peer {
  int number = -1;
  std::uint64_t bytes = 0;
  std::uint64_t relay_bytes = 0;
  // Both on one node: the peer's buffer or relay in this process.
  std::shared_ptr<base::Segment> mapped;
  std::byte* direct = nullptr;
  std::shared_ptr<base::Segment> mapped_control;
  std::byte* words = nullptr;  // this side's control words at the peer, if mapped
  // Otherwise, over a wire.
  transport::OpenWire* wire = nullptr;
  std::unique_ptr<transport::Channel> channel;  // null: the wire can't reach the buffer
  std::unique_ptr<transport::Channel> control;
  std::uint64_t control_at = 0;  // the place of this side's words in the peer's control region
  bool connected() const noexcept { return words != nullptr || control != nullptr; }
};

namespace {

constexpr std::size_t longest_copy_under_lock = 4096;
constexpr std::size_t words_bytes = Endpoint::control_words * sizeof(std::uint64_t);

}  // namespace

Endpoint::Endpoint(std::shared_ptr<memory::Allocation> buffer, std::shared_ptr<memory::Allocation> relay, Wires wires,
                   base::Log log)
    : buffer_(std::move(buffer)), relay_(std::move(relay)), wires_(std::move(wires)), peers_(most_peers), log_(log) {
  region_.base = exposed().address;
  region_.bytes = exposed().bytes;
  region_.segment = exposed().segment;
  region_.segment_offset = exposed().segment_offset;
  control_ = base::Segment::create(control_bytes);
  control_region_.base = control_->base();
  control_region_.bytes = most_peers * words_bytes;
  control_region_.segment = control_;
  Wires usable;
  for (auto& wire : wires_) {
    try {
      base::Bytes control_key = wire->register_region(control_region_);
      keys_.push_back(wire->register_region(region_));
      control_keys_.push_back(std::move(control_key));
      usable.push_back(std::move(wire));
    } catch (const Error& error) {  // such as the limit of locked memory
      if (&wire == &wires_.back() && usable.empty()) throw;
      log_.warn("{} isn't used: {} bytes can't be registered: {}", wire->name(), region_.bytes, error.detail().message);
    }
  }
  wires_ = std::move(usable);
}

Endpoint::~Endpoint() {
  for (const auto& peer : peers_)
    if (peer != nullptr) remove(peer->number);
  for (const auto& wire : wires_) {
    wire->deregister_region(control_region_);
    wire->deregister_region(region_);
  }
}

void Endpoint::register_local(std::byte* memory, std::size_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& wire : wires_) {
    try {
      (void)wire->register_local(memory, bytes);
    } catch (const Error& error) {
      log_.info("{}: {} bytes aren't registered: {}", wire->name(), bytes, error.detail().message);
    }
  }
}

void Endpoint::deregister_local(const std::byte* memory, std::size_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& wire : wires_) wire->deregister_local(memory, bytes);
}

std::vector<std::string> Endpoint::wire_names() const {
  std::vector<std::string> names;
  for (const auto& wire : wires_) names.emplace_back(wire->name());
  return names;
}

int Endpoint::reserve() {
  const std::lock_guard guard(lock_);
  // The place that has been free for the longest time: a peer that was mapped may still store into its words.
  for (int i = 0; i < most_peers; ++i) {
    last_reserved_ = last_reserved_ == INT_MAX / most_peers * most_peers - 1 ? 0 : last_reserved_ + 1;
    auto& place = peers_[static_cast<std::size_t>(place_of(last_reserved_))];
    if (place != nullptr) continue;
    place = std::make_unique<Peer>();
    place->number = last_reserved_;
    std::memset(own_words(last_reserved_), 0, words_bytes);
    return last_reserved_;
  }
  return -1;
}

base::Bytes Endpoint::offer(int peer) {
  const std::lock_guard guard(lock_);
  base::ByteWriter out;
  out.number(static_cast<std::uint64_t>(buffer_->bytes))
      .number(static_cast<std::uint64_t>(relay_ != nullptr ? relay_->bytes : 0))
      .number(static_cast<std::uint32_t>(place_of(peer)))
      .number(static_cast<std::uint32_t>(wires_.size()));
  for (std::size_t w = 0; w < wires_.size(); ++w)
    out.text(wires_[w]->name()).blob(wires_[w]->offer(place_of(peer))).blob(keys_[w]).blob(control_keys_[w]);
  return out.take();
}

std::byte* Endpoint::own_words(int peer) const noexcept {
  return control_->base() + static_cast<std::size_t>(place_of(peer)) * words_bytes;
}

void Endpoint::connect(int peer, base::ByteView offer, const std::string& wire, Mapped mapped) {
  const std::lock_guard guard(lock_);
  Peer* const to = find(peer);
  if (to == nullptr) throw Error(Code::invalid_argument, "connect", fmt::format("peer {} isn't reserved", peer));
  base::ByteReader in(offer);
  const auto bytes = in.number<std::uint64_t>();
  const auto relay_bytes = in.number<std::uint64_t>();
  const auto place = in.number<std::uint32_t>();
  const auto count = in.number<std::uint32_t>();
  base::ByteView address, key, control_key;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const bool is_chosen = in.text() == wire;
    const base::ByteView one_address = in.blob();
    const base::ByteView one_key = in.blob();
    const base::ByteView one_control_key = in.blob();
    if (!is_chosen) continue;
    address = one_address;
    key = one_key;
    control_key = one_control_key;
  }
  if (!in.complete() || place >= most_peers) throw Error(Code::refused, "connect", "the peer's offer can't be read");
  to->control_at = place * words_bytes;
  if (mapped.control != nullptr) {
    const std::uint64_t exposed_bytes = relay_bytes != 0 ? relay_bytes : bytes;
    const bool holds = mapped.buffer != nullptr && mapped.offset <= mapped.buffer->bytes() &&
                       exposed_bytes <= mapped.buffer->bytes() - mapped.offset;
    if (!holds || mapped.control->bytes() < control_bytes)
      throw Error(Code::refused, "connect", "the peer's shared memory is smaller than its buffer");
    to->direct = mapped.buffer->base() + mapped.offset;
    to->mapped = std::move(mapped.buffer);
    to->words = mapped.control->base() + to->control_at;
    to->mapped_control = std::move(mapped.control);
    to->bytes = bytes;
    to->relay_bytes = relay_bytes;
    return;
  }
  for (const auto& mine : wires_) {
    if (mine->name() != wire || address.empty()) continue;
    const int number = place_of(peer);
    mine->add_peer(number, address);
    const auto channel_to = [&](const transport::Region& region, base::ByteView region_key) {
      std::vector<base::Bytes> keys(static_cast<std::size_t>(number) + 1);
      keys.back().assign(region_key.begin(), region_key.end());
      auto channels =
          mine->connect(region, keys, std::span(&number, 1), base::Deadline::after(std::chrono::seconds(30)));
      return std::move(channels.front());
    };
    auto control = channel_to(control_region_, control_key);
    if (!key.empty()) to->channel = channel_to(region_, key);
    to->control = std::move(control);
    to->wire = mine.get();
    to->bytes = bytes;
    to->relay_bytes = relay_bytes;
    return;
  }
  throw Error(Code::unavailable, "connect", fmt::format("wire {} isn't available on both sides", wire));
}

void Endpoint::remove(int peer) noexcept {
  const std::lock_guard guard(lock_);
  Peer* const gone = find(peer);
  if (gone == nullptr) return;
  gone->channel.reset();  // abandons the transfers in flight on it
  gone->control.reset();
  // The place was offered on every wire. It is used again, unless a wire still reads memory for messages to the peer.
  bool is_free = true;
  for (const auto& wire : wires_) {
    wire->remove_peer(place_of(peer));
    is_free = is_free && wire->peer_status(place_of(peer)).ok();
  }
  gone->number = -1;
  if (is_free) peers_[static_cast<std::size_t>(place_of(peer))].reset();
}

Status Endpoint::status(int peer) const noexcept {
  const std::lock_guard guard(lock_);
  const Peer* const to = find(peer);
  if (to == nullptr) return Status::failure(Code::not_found, "the peer isn't connected", peer);
  return to->wire != nullptr ? to->wire->peer_status(place_of(peer)) : Status{};
}

std::uint64_t Endpoint::peer_bytes(int peer) const noexcept {
  const std::lock_guard guard(lock_);
  const Peer* const to = find(peer);
  return to != nullptr ? to->bytes : 0;
}

std::uint64_t Endpoint::peer_relay_bytes(int peer) const noexcept {
  const std::lock_guard guard(lock_);
  const Peer* const to = find(peer);
  return to != nullptr ? to->relay_bytes : 0;
}

std::string Endpoint::path(int peer) const {
  const std::lock_guard guard(lock_);
  const Peer* const to = find(peer);
  if (to == nullptr) return "not connected";
  if (to->words != nullptr) return "shared memory";
  return to->wire != nullptr ? fmt::format("{}: {}", to->wire->name(), to->wire->reaches(place_of(peer)).why)
                             : "not connected";
}

Endpoint::Peer* Endpoint::find(int peer) const noexcept {
  Peer* const found = peer >= 0 ? peers_[static_cast<std::size_t>(place_of(peer))].get() : nullptr;
  return found != nullptr && found->number == peer ? found : nullptr;
}

Status Endpoint::check(const Peer* peer, Place place, const void* local, std::size_t size) const noexcept {
  if (peer == nullptr || !peer->connected()) return Status::failure(Code::not_found, "the peer isn't connected");
  if (peer->direct == nullptr && peer->channel == nullptr && size > 0)
    return Status::failure(Code::unsupported, "the wire can't access the peer's buffer");
  const std::uint64_t limit = place.in_relay ? peer->relay_bytes : peer->bytes;
  // No sum of offset and size: it could wrap around.
  if (size > limit || place.offset > limit - size)
    return Status::failure(Code::out_of_range, "the range exceeds the peer's buffer");
  if (local == nullptr && size > 0) return Status::failure(Code::invalid_argument, "the pointer is null");
  if (peer->relay_bytes != 0 && !place.in_relay && size > 0)
    return Status::failure(Code::unsupported, "the peer's buffer is device memory");
  return {};
}

Status Endpoint::put(int peer, Place place, const void* local, std::size_t size, Transfer& transfer) noexcept {
  return put_signal(peer, place, local, size, 0, {}, transfer);
}

Status Endpoint::start_put(int peer, Place place, const void* local, std::size_t size, Transfer& transfer) noexcept {
  transfer = {};
  std::unique_lock guard(lock_);
  Peer* const to = find(peer);
  if (const Status status = check(to, place, local, size); !status.ok() || size == 0) return status;
  if (to->words != nullptr) {
    guard.unlock();
    return put(peer, place, local, size, transfer);
  }
  transfer.peer = peer;
  return to->channel->put(place.offset, local, size, transfer.data);
}

Status Endpoint::flush(int peer, Transfer& transfer) noexcept {
  transfer = {};
  const std::lock_guard guard(lock_);
  const Peer* const to = find(peer);
  if (to == nullptr) return Status::failure(Code::not_found, "the peer isn't connected", peer);
  if (to->wire == nullptr) return {};
  transfer.peer = peer;
  return to->wire->flush(place_of(peer), transfer.flush);
}

Status Endpoint::put_signal(int peer, Place place, const void* local, std::size_t size, std::size_t first,
                            std::span<const std::uint64_t> values, Transfer& transfer) noexcept {
  transfer = {};
  std::unique_lock guard(lock_);
  Peer* const to = find(peer);
  if (const Status status = check(to, place, local, size); !status.ok()) return status;
  if (to->words != nullptr) {
    std::byte* const destination = size > 0 ? to->direct + place.offset : nullptr;
    std::byte* const words = to->words + first * sizeof(std::uint64_t);
    // The peer may be removed during a long copy. A short one holds the lock: that is faster than two references.
    std::pair<std::shared_ptr<base::Segment>, std::shared_ptr<base::Segment>> keep;
    if (size > longest_copy_under_lock) {
      keep = {to->mapped, to->mapped_control};
      guard.unlock();
    }
    if (size > 0) transport::store_bytes(destination, local, size);
    for (std::size_t i = 0; i < values.size(); ++i)
      transport::store_signal(words + i * sizeof(std::uint64_t), values[i]);
    // Release: pairs with the acquire of a reader that learns of this put by a later message or store of this thread.
    std::atomic_thread_fence(std::memory_order_release);
    return {};
  }
  transfer.peer = peer;
  Status status;
  if (size > 0) status = to->channel->put(place.offset, local, size, transfer.data);
  if (status.ok() && !values.empty()) {
    status = to->wire->fence();
    const std::uint64_t at = to->control_at + first * sizeof(std::uint64_t);
    const std::size_t others = values.size() - 1;
    // At most control_words words: the channel copies them at once.
    if (status.ok())
      status = to->control->put_signal(at, values.data(), others * sizeof(std::uint64_t),
                                       at + others * sizeof(std::uint64_t), values[others], transfer.words);
  }
  if (status.ok()) status = to->wire->flush(place_of(peer), transfer.flush);
  if (!status.ok()) {
    to->wire->abandon(std::exchange(transfer.data, done));
    to->wire->abandon(std::exchange(transfer.words, done));
  }
  return status;
}

std::uint64_t Endpoint::word(int peer, std::size_t index) const noexcept {
  return transport::load_signal(own_words(peer) + index * sizeof(std::uint64_t));
}

Status Endpoint::get(int peer, Place place, void* local, std::size_t size, Transfer& transfer) noexcept {
  transfer = {};
  std::unique_lock guard(lock_);
  Peer* const to = find(peer);
  if (const Status status = check(to, place, local, size); !status.ok() || size == 0) return status;
  if (to->direct != nullptr) {
    std::byte* const source = to->direct + place.offset;
    std::shared_ptr<base::Segment> keep;  // as in put_signal
    if (size > longest_copy_under_lock) {
      keep = to->mapped;
      guard.unlock();
    }
    // Acquire: pairs with the release of a peer that stored the bytes before it notified this thread.
    std::atomic_thread_fence(std::memory_order_acquire);
    transport::load_bytes(local, source, size);
    return {};
  }
  transfer.peer = peer;
  return to->channel->get(place.offset, local, size, transfer.data);
}

Status Endpoint::test_locked(Transfer& transfer) noexcept {
  if (transfer.is_complete()) return {};
  const Peer* const to = find(transfer.peer);
  if (to == nullptr || to->wire == nullptr) {
    transfer.data = transfer.words = transfer.flush = done;
    return Status::failure(Code::peer_failed, "the peer was disconnected during the transfer", transfer.peer);
  }
  to->wire->progress();
  for (transport::Ticket* const ticket : {&transfer.data, &transfer.words, &transfer.flush}) {
    if (*ticket == done) continue;
    const Status status = to->wire->test(*ticket);
    if (status.code == Code::in_progress) return status;
    *ticket = done;
    if (status.ok()) continue;
    for (transport::Ticket* const rest : {&transfer.words, &transfer.flush})
      to->wire->abandon(std::exchange(*rest, done));
    return status;
  }
  return {};
}

Status Endpoint::test(Transfer& transfer) noexcept {
  const std::lock_guard guard(lock_);
  return test_locked(transfer);
}

Status Endpoint::wait(Transfer& transfer, base::Deadline deadline) noexcept {
  constexpr unsigned quick_polls = 64;  // before this thread offers its core to others between polls
  if (transfer.is_complete()) return {};
  for (unsigned polls = 0;; ++polls) {
    if (const Status status = test(transfer); status.code != Code::in_progress) return status;
    if (polls < quick_polls) {
      base::cpu_relax();
      continue;
    }
    if (deadline.expired())
      return Status::failure(Code::timeout, "the peer hasn't confirmed the transfer in time", transfer.peer);
    ::sched_yield();
  }
}

void Endpoint::abandon(Transfer& transfer) noexcept {
  const std::lock_guard guard(lock_);
  const Peer* const to = find(transfer.peer);
  for (transport::Ticket* const ticket : {&transfer.data, &transfer.words, &transfer.flush}) {
    const transport::Ticket old = std::exchange(*ticket, done);
    if (to != nullptr && to->wire != nullptr && old != done) to->wire->abandon(old);
  }
}

}  // namespace hmc::rma
