#include "runtime/pool/copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::pool {

using base::Status;
using rma::Endpoint;

namespace {

constexpr std::size_t relay_bytes = std::size_t{1} << 20;
constexpr std::size_t most_in_flight = 256;
constexpr std::size_t longest_in_a_message = std::size_t{8} << 10;  // a request to the owner has such bytes itself

[[noreturn]] void refuse_copy(std::string text) { throw Error(Code::invalid_argument, "Pool::copy", std::move(text)); }

void check(const Status& status, int rank) {
  if (status.ok()) return;
  ErrorDetail detail;
  // The Endpoint doesn't know a removed peer.
  detail.code = status.code == Code::not_found ? Code::peer_failed : status.code;
  detail.operation = "Pool::copy";
  detail.peer = rank;
  detail.sys_errno = status.sys_errno;
  detail.message = status.what != nullptr ? status.what : "the copy failed";
  throw Error(std::move(detail));
}

PoolDirection direction_of(const Piece& piece) {
  using D = PoolDirection;
  const auto of = [](bool to_device, bool from_device, D hh, D hd, D dh, D dd) {
    return from_device ? (to_device ? dd : dh) : (to_device ? hd : hh);
  };
  const Side& to = piece.destination;
  const Side& from = piece.source;
  if (!from.is_global)
    return of(to.is_device, from.is_device, D::host_to_global_host, D::host_to_global_device, D::device_to_global_host,
              D::device_to_global_device);
  if (!to.is_global)
    return of(to.is_device, from.is_device, D::global_host_to_host, D::global_host_to_device, D::global_device_to_host,
              D::global_device_to_device);
  return of(to.is_device, from.is_device, D::global_host_to_global_host, D::global_host_to_global_device,
            D::global_device_to_global_host, D::global_device_to_global_device);
}

void check_direction(const Piece& piece, PoolDirection wanted) {
  if (wanted == PoolDirection::automatic) return;
  if (wanted == PoolDirection::global_to_global && piece.source.is_global && piece.destination.is_global) return;
  const PoolDirection found = direction_of(piece);
  if (found != wanted) refuse_copy(fmt::format("the copy is {}, not {}", name_of(found), name_of(wanted)));
}

bool overlap(const void* a, const void* b, std::size_t bytes) noexcept {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return (x > y ? x - y : y - x) < bytes;
}

void check_destinations(std::span<const PoolCopy> pieces) {
  std::vector<const PoolCopy*> sorted;
  for (const PoolCopy& each : pieces) sorted.push_back(&each);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->destination < b->destination; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (static_cast<std::byte*>(sorted[i - 1]->destination) + sorted[i - 1]->bytes > sorted[i]->destination)
      refuse_copy("two pieces of a batch have overlapping destinations");
}

}  // namespace

/// A way that has failed, for a reason other than its use: the member may live.
struct Copies::WayFailed {
  int rank;
  PoolPart part;
  const Member* member;
  PoolWay way;
  Status status;
  std::string why() const {
    if (way == PoolWay::process_copy && status.sys_errno != 0) return std::strerror(status.sys_errno);
    return status.what != nullptr ? status.what : "the copy failed";
  }
};

void Copies::check_way(const Status& status, const Side& side) {
  if (status.ok()) [[likely]]
    return;
  const bool is_of_the_way = status.code == Code::peer_failed || status.code == Code::not_found ||
                             status.code == Code::error || status.code == Code::unavailable ||
                             status.code == Code::closed;
  const bool may_fail = side.is_by_wire() || side.way == PoolWay::process_copy || side.way == PoolWay::mapped;
  if (is_of_the_way && side.member != nullptr && may_fail)
    throw WayFailed{side.rank, side.part, side.member, side.way, status};
  check(status, side.rank);
}

// ---- what the addresses are

/// Transfers of the Endpoint that this call has started. The puts to a member are flushed once, at the end. `at`: in
/// the member's buffer. The Sides outlive it.
struct Copies::InFlight {
  explicit InFlight(base::Deadline until) : deadline(until) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() {
    for (auto& [transfer, side] : transfers) endpoint->abandon(transfer);
  }
  void put(Endpoint& by, const Side& to, std::uint64_t at, const std::byte* from, std::size_t bytes) {
    endpoint = &by;
    Endpoint::Transfer transfer;
    check_way(by.start_put(to.member->far, at, from, bytes, transfer), to);
    add(transfer, to);
    const auto is_target = [&](const Side* each) { return each->member == to.member; };
    if (std::none_of(unflushed.begin(), unflushed.end(), is_target)) unflushed.push_back(&to);
  }
  void get(Endpoint& by, const Side& from, std::uint64_t at, std::byte* to, std::size_t bytes) {
    endpoint = &by;
    Endpoint::Transfer transfer;
    check_way(by.get(from.member->far, at, to, bytes, transfer), from);
    add(transfer, from);
  }
  void add(const Endpoint::Transfer& transfer, const Side& side) {
    transfers.emplace_back(transfer, &side);
    if (transfers.size() > most_in_flight) wait_for_first();
  }
  void wait_for_first() {
    check_way(endpoint->wait(transfers.front().first, deadline), *transfers.front().second);
    transfers.pop_front();
  }
  void finish() {
    for (const Side* const to : unflushed) {
      Endpoint::Transfer transfer;
      check_way(endpoint->flush(to->member->far, transfer), *to);
      transfers.emplace_back(transfer, to);
    }
    unflushed.clear();
    while (!transfers.empty()) wait_for_first();
  }
  Endpoint* endpoint = nullptr;
  base::Deadline deadline;
  std::deque<std::pair<Endpoint::Transfer, const Side*>> transfers;
  std::vector<const Side*> unflushed;
};

Side Copies::global_side(const PoolPlace& place, std::size_t bytes, Batch& batch) {
  auto found = std::find_if(batch.members.begin(), batch.members.end(),
                            [&](const auto& each) { return each.first == place.rank; });
  if (found == batch.members.end()) found = batch.members.insert(found, {place.rank, members_.use(place.rank)});
  const Member* const member = found->second.get();
  if (member == nullptr)
    throw Error(Code::peer_failed, "Pool::copy", fmt::format("rank {} isn't a member", place.rank));
  const std::uint64_t limit = member->bytes(place.part);
  if (bytes > limit || place.offset > limit - bytes)
    throw Error(Code::out_of_range, "Pool::copy",
                fmt::format("{} bytes from offset {} of the {} part of rank {}, which has {}", bytes, place.offset,
                            name_of(place.part), place.rank, limit));
  Side side;
  side.is_global = true;
  side.is_device = place.part == PoolPart::device;
  side.member = member;
  side.rank = place.rank;
  side.part = place.part;
  side.offset = place.offset;
  locate(side);
  return side;
}

/// Where the part is now, by the member's present way.
void Copies::locate(Side& side) noexcept {
  side.way = side.member->way(side.part);
  side.direct = nullptr;
  if (side.part == PoolPart::host) {
    side.owner = memory::host_owner();
    if (side.way == PoolWay::own || side.way == PoolWay::load_store) side.direct = side.member->host + side.offset;
  } else if (side.way == PoolWay::own || side.way == PoolWay::mapped) {
    side.owner = memory::owner_of(*side.member->device);
    side.direct = side.member->device->address + side.offset;
  }
}

Side Copies::side_of(const void* address, std::size_t bytes, Batch& batch) {
  if (address == nullptr) refuse_copy("an address is null");
  if (members_.addresses().contains(address)) return global_side(members_.place_of(address), bytes, batch);
  Side side;
  side.direct = static_cast<std::byte*>(const_cast<void*>(address));
  side.owner = memory::devices_present() ? memory::known_owner_of(address) : memory::host_owner();
  side.is_device = !memory::is_host_accessible(side.owner);
  return side;
}

Piece Copies::piece_of(const PoolCopy& copy, PoolDirection direction, Batch& batch) {
  if (copy.bytes == 0) refuse_copy("a copy of 0 bytes");
  if (overlap(copy.destination, copy.source, copy.bytes)) refuse_copy("source and destination overlap");
  Piece piece{side_of(copy.destination, copy.bytes, batch), side_of(copy.source, copy.bytes, batch), copy.bytes};
  if (!piece.destination.is_global && !piece.source.is_global) refuse_copy("neither address is in the pool");
  check_direction(piece, direction);
  return piece;
}

Batch Copies::resolve(std::span<const PoolCopy> pieces, PoolDirection direction) {
  if (!members_.is_member()) throw Error(Code::closed, "Pool::copy", "this process isn't a member of the pool");
  check_destinations(pieces);
  Batch batch;
  batch.pieces.reserve(pieces.size());
  for (const PoolCopy& each : pieces) batch.pieces.push_back(piece_of(each, direction, batch));
  return batch;
}

// ---- moving the bytes

void Copies::copy(void* destination, const void* source, std::size_t bytes, PoolDirection direction) {
  if (!members_.is_member()) throw Error(Code::closed, "Pool::copy", "this process isn't a member of the pool");
  Batch batch;
  const Piece piece = piece_of({destination, source, bytes}, direction, batch);
  try {
    InFlight in_flight(deadline());
    run_piece(piece, in_flight);
    return in_flight.finish();
  } catch (const WayFailed& failed) {
    fall_back(failed);
  }
  batch.pieces.push_back(piece);
  run(batch);
}

void Copies::run(Batch& batch) {
  for (;;) {
    for (Piece& each : batch.pieces)
      for (Side* const side : {&each.destination, &each.source})
        if (side->is_global) locate(*side);
    try {
      return run_once(batch);
    } catch (const WayFailed& failed) {
      fall_back(failed);
    }
  }
}

void Copies::run_once(const Batch& batch) {
  InFlight in_flight(deadline());
  for (const Piece& each : batch.pieces) run_piece(each, in_flight);
  in_flight.finish();
}

/// Throws Error{peer_failed} if the member has ended: its answer or its leave decides.
void Copies::fall_back(const WayFailed& failed) {
  const StagedCopy nothing{static_cast<std::uint8_t>(failed.part), false, -1, 0, 0};
  (void)members_.call(failed.rank, Message::Kind::staged, base::encode(nothing), deadline());
  if (failed.member->failed->add(failed.part, failed.why()))
    members_.report_failed_way(failed.rank, failed.part, *failed.member);
}

Copies::Copies(Membership& members, std::chrono::nanoseconds timeout)
    : members_(members), timeout_(timeout), places_(static_cast<std::size_t>(members.options().most_members)) {}

void Copies::run_piece(const Piece& piece, InFlight& in_flight) {
  const Side& to = piece.destination;
  const Side& from = piece.source;
  if (to.is_host_memory() && from.is_host_memory()) {
    std::memcpy(to.direct, from.direct, piece.bytes);
    return;
  }
  if (to.direct != nullptr && from.direct != nullptr) return copy_direct(piece);
  const auto is_far = [](const Side& side) { return !side.is_device && side.is_by_wire(); };
  if (is_far(to) && from.is_host_memory())
    return in_flight.put(members_.endpoint(), to, to.offset, from.direct, piece.bytes);
  if (is_far(from) && to.is_host_memory())
    return in_flight.get(members_.endpoint(), from, from.offset, to.direct, piece.bytes);
  if (to.is_host_memory()) return read(from, 0, to.direct, piece.bytes);
  if (from.is_host_memory()) return write(to, 0, from.direct, piece.bytes);
  relay(piece);
}

void Copies::copy_direct(const Piece& piece) {
  const Side& to = piece.destination;
  const Side& from = piece.source;
  // The way that fails is that of mapped device memory; of two, the destination's.
  check_way(memory::copy_between(to.direct, to.owner, from.direct, from.owner, piece.bytes),
            to.way == PoolWay::mapped || !from.is_global ? to : from);
}

/// Through host memory of this process.
void Copies::relay(const Piece& piece) {
  base::Bytes buffer(std::min(piece.bytes, relay_bytes));
  for (std::size_t done = 0; done < piece.bytes; done += buffer.size()) {
    const std::size_t bytes = std::min(buffer.size(), piece.bytes - done);
    read(piece.source, done, buffer.data(), bytes);
    write(piece.destination, done, buffer.data(), bytes);
  }
}

void Copies::read(const Side& from, std::uint64_t at, std::byte* to, std::size_t bytes) {
  if (from.direct != nullptr)
    return check_way(memory::copy_between(to, memory::host_owner(), from.direct + at, from.owner, bytes), from);
  if (!from.is_device && from.is_by_wire()) {
    InFlight one(deadline());
    one.get(members_.endpoint(), from, from.offset + at, to, bytes);
    return one.finish();
  }
  if (from.way == PoolWay::process_copy)
    return check_way(
        transport::PeerReads::read(from.member->process, from.member->remote + from.offset + at, to, bytes, from.rank),
        from);
  if (from.is_by_wire() && bytes > longest_in_a_message) return transfer_by_place(from, at, to, bytes, false);
  for (std::size_t done = 0; done < bytes; done += StagedCopy::most_bytes) {
    const std::size_t part = std::min(bytes - done, StagedCopy::most_bytes);
    const base::Bytes got = staged(from, at + done, {}, part);
    if (got.size() != part) throw Error(Code::error, "Pool::copy", "the owner sent another number of bytes");
    std::memcpy(to + done, got.data(), part);
  }
}

void Copies::write(const Side& to, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  if (to.direct != nullptr)
    return check_way(memory::copy_between(to.direct + at, to.owner, from, memory::host_owner(), bytes), to);
  if (!to.is_device && to.is_by_wire()) {
    InFlight one(deadline());
    one.put(members_.endpoint(), to, to.offset + at, from, bytes);
    return one.finish();
  }
  if (to.way == PoolWay::process_copy)
    return check_way(
        transport::PeerReads::write(to.member->process, to.member->remote + to.offset + at, from, bytes, to.rank), to);
  if (to.is_by_wire() && bytes > longest_in_a_message)
    return transfer_by_place(to, at, const_cast<std::byte*>(from), bytes, true);
  for (std::size_t done = 0; done < bytes; done += StagedCopy::most_bytes) {
    const std::size_t part = std::min(bytes - done, StagedCopy::most_bytes);
    (void)staged(to, at + done, {from + done, part}, part);
  }
}

/// By the owner: see Membership::run_staged. `bytes` empty: a read of `size` bytes.
base::Bytes Copies::staged(const Side& side, std::uint64_t at, std::span<const std::byte> bytes, std::size_t size) {
  const StagedCopy request{static_cast<std::uint8_t>(side.part), !bytes.empty(), -1, side.offset + at, size};
  base::Bytes message = base::encode(request);
  message.insert(message.end(), bytes.begin(), bytes.end());
  return members_.call(side.rank, Message::Kind::staged, message, deadline());
}

/// By the wire, through this process's place in the owner's staging memory: while the owner copies one half, the wire
/// moves the other one.
void Copies::transfer_by_place(const Side& side, std::uint64_t at, std::byte* local, std::size_t bytes, bool writes) {
  const std::size_t half_bytes = OwnParts::half_of_a_place(members_.options().most_members);
  const std::size_t chunks = (bytes + half_bytes - 1) / half_bytes;
  const std::lock_guard one_at_a_time(places_[static_cast<std::size_t>(side.rank)]);
  if (side.member->failed->has(side.part))  // the transfer before this one: the owner may still access the place
    throw WayFailed{side.rank, side.part, side.member, side.way,
                    Status::failure(Code::closed, "an earlier transfer failed", side.rank)};
  std::deque<std::uint64_t> asked;  // requests to the owner, of successive chunks
  const auto size_of = [&](std::size_t chunk) { return std::min(half_bytes, bytes - chunk * half_bytes); };
  const auto ask = [&](std::size_t chunk) {
    const StagedCopy request{static_cast<std::uint8_t>(side.part), writes, static_cast<std::int8_t>(chunk % 2),
                             side.offset + at + chunk * half_bytes, size_of(chunk)};
    asked.push_back(members_.start_call(side.rank, Message::Kind::staged, base::encode(request)));
  };
  const auto await_first = [&] {
    const std::uint64_t id = asked.front();
    asked.pop_front();
    (void)members_.finish_call(id, deadline());
  };
  const auto move = [&](std::size_t chunk) {
    InFlight one(deadline());
    const std::uint64_t there = side.member->place + (chunk % 2) * half_bytes;
    std::byte* const here = local + chunk * half_bytes;
    if (writes)
      one.put(members_.endpoint(), side, there, here, size_of(chunk));
    else
      one.get(members_.endpoint(), side, there, here, size_of(chunk));
    one.finish();
  };
  // The owner may still access the place, so it isn't used again.
  const auto give_up = [&](const std::string& why) {
    if (side.member->failed->add(side.part, why)) members_.report_failed_way(side.rank, side.part, *side.member);
    for (const std::uint64_t id : asked) members_.forget_call(id);
  };
  try {
    if (!writes)
      for (std::size_t chunk = 0; chunk < std::min<std::size_t>(chunks, 2); ++chunk) ask(chunk);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      if (writes) {
        if (asked.size() == 2) await_first();
        move(chunk);
        ask(chunk);
      } else {
        await_first();
        move(chunk);
        if (chunk + 2 < chunks) ask(chunk + 2);
      }
    }
    while (!asked.empty()) await_first();
  } catch (const WayFailed& failed) {
    give_up(failed.why());
    throw;
  } catch (const Error& error) {
    give_up(error.detail().message);
    throw;
  }
}

void Copies::copy_2d(const Matrix& matrix, PoolDirection direction) {
  const auto& [destination, destination_pitch, source, source_pitch, width, height] = matrix;
  if (width == 0 || height == 0) refuse_copy("a matrix without elements");
  if (destination_pitch < width || source_pitch < width) refuse_copy("a pitch is smaller than the width");
  std::size_t end = 0;
  if (__builtin_mul_overflow(std::max(destination_pitch, source_pitch), height, &end))
    refuse_copy("the pitch is too large");
  if (destination_pitch == width && source_pitch == width) return copy(destination, source, width * height, direction);
  std::vector<PoolCopy> rows;
  rows.reserve(height);
  for (std::size_t row = 0; row < height; ++row)
    rows.push_back({static_cast<std::byte*>(destination) + row * destination_pitch,
                    static_cast<const std::byte*>(source) + row * source_pitch, width});
  Batch batch = resolve(rows, direction);
  const Piece& first = batch.pieces.front();
  // One strided copy of the device, if each side is one range of one device, or of the host.
  const auto is_one_range = [&](const Side& begin, const Side& end, std::size_t pitch) {
    return begin.direct != nullptr && end.direct == begin.direct + (matrix.height - 1) * pitch &&
           begin.rank == end.rank;
  };
  const Piece& last = batch.pieces.back();
  const auto* const to = first.destination.is_device ? first.destination.owner.provider : nullptr;
  const auto* const from = first.source.is_device ? first.source.owner.provider : nullptr;
  const bool is_one_vendor = to != nullptr ? from == nullptr || from == to : from != nullptr;
  if (!is_one_vendor || !is_one_range(first.destination, last.destination, destination_pitch) ||
      !is_one_range(first.source, last.source, source_pitch))
    return run(batch);
  memory::Transfer transfer = memory::transfer_between(first.destination.direct, first.destination.owner,
                                                       first.source.direct, first.source.owner, width);
  transfer.height = height;
  transfer.destination_pitch = destination_pitch;
  transfer.source_pitch = source_pitch;
  if (!(to != nullptr ? to : from)->copy(transfer).ok()) run(batch);  // by rows; it reports a failure
}

// ---- in the background, and on streams

void Copies::start(Batch batch) {
  const auto shared = std::make_shared<Batch>(std::move(batch));
  background_.run([this, shared] {
    try {
      run(*shared);
    } catch (const Error& error) {
      const std::lock_guard guard(lock_);
      if (!failure_) failure_.emplace(error);
    }
  });
}

void Copies::wait(base::Deadline deadline) {
  if (!background_.wait(deadline)) throw Error(Code::timeout, "Pool::wait", "copies are in flight");
  reap_streams(false);
  const std::lock_guard guard(lock_);
  if (!failure_) return;
  const Error error = *std::exchange(failure_, std::nullopt);
  throw Error(error);
}

Copies::~Copies() { reap_streams(true); }

void Copies::on_stream(void* destination, const void* source, std::size_t bytes, MemoryType type, void* stream) {
  reap_streams(false);
  const PoolCopy copy{destination, source, bytes};
  Batch batch = resolve({&copy, 1}, PoolDirection::automatic);
  const Piece& piece = batch.pieces.front();
  const Side& to = piece.destination;
  const Side& from = piece.source;
  const auto unsupported = [](const char* why) { throw Error(Code::unsupported, "Pool::copy_on_stream", why); };
  if (to.direct == nullptr || from.direct == nullptr) unsupported("a part isn't mapped in this process");
  if (!to.is_device && !from.is_device) unsupported("neither side is device memory");
  const memory::Provider& provider = memory::provider_for(type);
  for (const Side* const each : {&to, &from})
    if (each->is_device && each->owner.provider != &provider) unsupported("the stream is of another vendor");
  const int device = to.is_device ? to.owner.info.device : from.owner.info.device;
  const auto queue = provider.borrow_stream(device, stream);
  check(provider.copy_async(memory::transfer_between(to.direct, to.owner, from.direct, from.owner, bytes), *queue),
        to.is_global ? to.rank : from.rank);
  auto done = provider.make_event(device);
  check(done->record(*queue), -1);
  const std::lock_guard guard(lock_);
  stream_uses_.push_back({std::move(batch), std::move(done)});
}

/// The members of copies that the streams have executed are in use no more.
void Copies::reap_streams(bool all) noexcept {
  const std::lock_guard guard(lock_);
  std::erase_if(stream_uses_, [&](const StreamUse& each) {
    if (all) (void)each.done->synchronize();
    return all || each.done->query().code != Code::in_progress;
  });
}

// ---- the caller's memory

void Copies::register_memory(void* address, std::size_t bytes) {
  const auto fail = [](const char* why) { throw Error(Code::invalid_argument, "Pool::register_memory", why); };
  if (address == nullptr || bytes == 0) fail("a null address, or 0 bytes");
  if (members_.addresses().contains(address)) fail("the memory is the pool's");
  const std::lock_guard guard(lock_);
  const auto found = std::find_if(registered_.begin(), registered_.end(),
                                  [&](const Registered& each) { return each.address == address; });
  if (found != registered_.end()) {
    if (found->bytes != bytes) fail("the address is registered with another size");
    return;
  }
  Registered made{static_cast<std::byte*>(address), bytes, {}};
  const auto& part = members_.own().device();
  if (part != nullptr && memory::is_host_accessible(address)) {
    try {
      made.pins.push_back(part->provider->pin(part->device, address, bytes));
    } catch (const Error&) {  // the copies work without
    }
  }
  members_.register_local(made.address, bytes);
  registered_.push_back(std::move(made));
}

void Copies::deregister_memory(void* address) noexcept {
  const std::lock_guard guard(lock_);
  std::erase_if(registered_, [&](const Registered& each) {
    if (each.address != address) return false;
    members_.deregister_local(each.address, each.bytes);
    return true;
  });
}

}  // namespace hmc::pool
