#include "compat/hmc/data_plane.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <new>
#include <utility>

#include <hmc/error.hpp>

#include "compat/hmc/control_words.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/memory/stage.hpp"

namespace hmc::compat {

using base::Deadline;
using base::Status;
using rma::Endpoint;
using Transfer = Endpoint::Transfer;

namespace {

constexpr std::uint64_t accepted = 0, too_long = 1;
constexpr std::uint64_t not_sent = UINT64_MAX;  // in sent_bytes: the message is longer than receive_bytes

std::uint64_t next_id() noexcept {
  // Relaxed: only uniqueness matters. Shared by all Communicators, so that an id of another Communicator is never valid
  // here.
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// The size of a half. Both sides compute it from the sizes of the receiver's buffer and relay. A multiple of 64 if
/// possible.
std::size_t half_of(std::uint64_t buffer_bytes, std::uint64_t relay_bytes) noexcept {
  const std::uint64_t half = (relay_bytes != 0 ? RelayLayout::message_bytes : buffer_bytes) / 2;
  return half < 64 ? half : half / 64 * 64;
}

std::uint64_t chunks_of(std::size_t size, std::size_t half) noexcept { return size / half + (size % half != 0); }

/// Fails if this machine has no such memory. The caller checks this before it announces the message.
Status check_type(MemoryType type) noexcept {
  if (static_cast<int>(type) < 0 || static_cast<int>(type) >= memory_type_count)
    return Status::failure(Code::unsupported, "the buffer's MemoryType has an unknown number");
  try {
    (void)memory::provider_for(type);
  } catch (const Error& error) {
    return Status::failure(error.detail().code,
                           "this machine has no memory of the buffer's MemoryType; hmcinfo devices prints the reason");
  }
  return {};
}

/// An Error of a Stage.
Status from(const Error& error) noexcept {
  return Status::failure(error.detail().code, "no pinned memory, stream or event to stage device memory");
}

Status stream_is_broken() noexcept {
  return Status::failure(Code::error, "an earlier call of this kind with this peer failed after a part of its message");
}

/// Marks the stream as broken unless the call completes: the two sides may disagree about the next message.
class InMessage {
 public:
  explicit InMessage(Stream& stream) noexcept : stream_(stream) {}
  InMessage(const InMessage&) = delete;
  InMessage& operator=(const InMessage&) = delete;
  ~InMessage() { stream_.broken = stream_.broken || !complete_; }
  Status end(Status status) noexcept {
    complete_ = status.ok() || status.code == Code::out_of_range;
    return status;
  }

 private:
  Stream& stream_;
  bool complete_ = false;
};

}  // namespace

DataPlane::DataPlane(Peers& peers, Halves& halves) : peers_(peers), endpoint_(peers.endpoint()), halves_(halves) {
  if (!endpoint_.buffer().host_accessible) relay_.emplace(peers);
}

Status DataPlane::check(const Peer& peer, std::size_t local, std::size_t size) const noexcept {
  const std::size_t whole = peers_.buffer().buffer_size;
  // No sum of offset and size: it could wrap around.
  if (size > whole || local > whole - size)
    return Status::failure(Code::out_of_range, "the range exceeds this side's buffer");
  return peers_.status(peer);
}

Status DataPlane::start_one(Move move, int number, const Range& range, Transfer& transfer) noexcept {
  std::byte* const local = endpoint_.buffer().address + range.local;
  return move == Move::put ? endpoint_.put(number, range.remote, local, range.size, transfer)
                           : endpoint_.get(number, range.remote, local, range.size, transfer);
}

Status DataPlane::finish(Transfer& transfer, Deadline deadline) noexcept {
  const Status status = endpoint_.wait(transfer, deadline);
  if (status.code == Code::timeout) endpoint_.abandon(transfer);
  return status;
}

Status DataPlane::move_at_once(Move move, int number, const Range& range, std::chrono::nanoseconds timeout) noexcept {
  const std::size_t whole = peers_.buffer().buffer_size;
  if (range.size > whole || range.local > whole - range.size)
    return Status::failure(Code::out_of_range, "the range exceeds this side's buffer");
  Transfer transfer;
  const Status status = start_one(move, number, range, transfer);
  if (!status.ok() || transfer.is_complete()) return status;
  return finish(transfer, Deadline::after(timeout));
}

Status DataPlane::move(Move move, Peer& peer, const Range& range, std::size_t chunk, std::size_t inflight,
                       Deadline deadline) noexcept {
  if (chunk >= range.size && moves_at_once()) {
    const Status status = move_at_once(move, peer.number, range, deadline.left());
    if (status.code == Code::not_found) {
      const Status reason = peers_.status(peer);  // it was removed
      return reason.ok() ? status : reason;
    }
    if (status.code != Code::unsupported) return status;
  }
  if (const Status status = check(peer, range.local, range.size); !status.ok()) return status;
  // The whole range is checked before anything moves.
  if (range.size > endpoint_.peer_bytes(peer.number) || range.remote > endpoint_.peer_bytes(peer.number) - range.size)
    return Status::failure(Code::out_of_range, "the range exceeds the peer's buffer");
  if (endpoint_.peer_relay_bytes(peer.number) != 0) return move_relayed(move, peer, range, deadline);
  if (!endpoint_.buffer().host_accessible) return move_staged(move, peer, range, deadline);
  Status first;
  try {
    std::deque<Transfer> in_flight;
    const auto finish_oldest = [&] {
      const Status status = finish(in_flight.front(), deadline);
      in_flight.pop_front();
      if (first.ok()) first = status;
    };
    std::size_t at = 0;
    do {
      const std::size_t size = std::min(chunk, range.size - at);
      if (in_flight.size() >= std::max<std::size_t>(inflight, 1)) finish_oldest();
      if (!first.ok()) break;
      in_flight.emplace_back();
      first = start_one(move, peer.number, {range.local + at, range.remote + at, size}, in_flight.back());
      at += size;
    } while (first.ok() && at < range.size);
    while (!in_flight.empty()) finish_oldest();
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for a transfer");
  }
  return first;
}

Status DataPlane::move_staged(Move move, const Peer& peer, const Range& range, Deadline deadline) noexcept {
  try {
    const memory::Allocation& mine = endpoint_.buffer();
    memory::StageLease stage(*mine.provider, mine.device);
    const std::size_t piece = memory::staged_piece(range.size);
    std::byte* const device = mine.address + range.local;
    memory::OutPieces out(*stage, device, move == Move::put ? range.size : 0, piece);
    std::size_t n = 0;
    for (std::size_t at = 0; at < range.size; ++n) {
      const std::size_t size = std::min(piece, range.size - at);
      Transfer transfer;
      Status status;
      if (move == Move::put) {
        const std::byte* staged = nullptr;
        status = out.next(staged);
        if (status.ok()) status = endpoint_.put(peer.number, range.remote + at, staged, size, transfer);
        if (status.ok()) status = finish(transfer, deadline);
      } else {
        status = stage->wait(n);
        if (status.ok()) status = endpoint_.get(peer.number, range.remote + at, stage->half(n), size, transfer);
        if (status.ok()) status = finish(transfer, deadline);
        if (status.ok()) status = stage->start_to_device(n, device + at, size);
      }
      if (!status.ok()) return status;
      at += size;
    }
    return stage->wait_for_all();
  } catch (const Error& error) {
    return from(error);
  } catch (const std::exception&) {
    return Status::failure(Code::out_of_memory, "no memory to stage device memory");
  }
}

/// See DeviceRelay. This side's buffer may be device memory too.
Status DataPlane::move_relayed(Move move, Peer& peer, const Range& range, Deadline deadline) noexcept {
  if (range.size == 0) return {};
  const std::unique_lock guard(peer.relay.lock, deadline.left());
  if (!guard)
    return Status::failure(Code::timeout, "an earlier transfer to the peer's device memory hasn't ended in time");
  memory::StageLease stage;
  try {
    const memory::Allocation& mine = endpoint_.buffer();
    if (!mine.host_accessible) stage = memory::StageLease(*mine.provider, mine.device);
  } catch (const Error& error) {
    return from(error);
  } catch (const std::exception&) {
    return Status::failure(Code::out_of_memory, "no memory to stage device memory");
  }
  const RelayCall call{++peer.relay.messages, move == Move::get};
  const std::uint64_t values[] = {range.remote, range.size, call.word()};
  Status status = signal(peer, relay_offset, values, deadline);
  const auto grant = [&] { return RelayGrant::of(endpoint_.word(peer.number, relay_grant)); };
  if (status.ok()) status = wait_for(peer, deadline, [&] { return grant().number >= call.number; });
  if (status.ok() && grant().slot == RelayGrant::out_of_range)
    return Status::failure(Code::out_of_range, "the range exceeds the peer's buffer");
  if (status.ok()) status = move_pieces(move, peer, range, {call.number, grant().slot}, stage, deadline);
  if (status.ok() && move == Move::get) status = peers_.status(peer);  // else its slot may have been another peer's
  if (!status.ok()) (void)signal(peer, relay_end, std::span(&call.number, 1), Deadline::after(std::chrono::seconds(1)));
  return status;
}

Status DataPlane::move_pieces(Move move, const Peer& peer, const Range& range, const RelayGrant& grant,
                              memory::StageLease& stage, Deadline deadline) noexcept {
  constexpr std::size_t piece = RelayLayout::piece_bytes;
  const bool staged = static_cast<bool>(stage);
  std::byte* const local = endpoint_.buffer().address + range.local;
  std::optional<memory::OutPieces> out;
  if (staged && move == Move::put) out.emplace(*stage, local, range.size, piece);
  /// Waits until the owner has done this many pieces.
  const auto wait_done = [&](std::uint64_t pieces) {
    bool failed = false;
    const Status status = wait_for(peer, deadline, [&] {
      failed = RelayGrant::of(endpoint_.word(peer.number, relay_grant)).slot == RelayGrant::failed;
      return failed || endpoint_.word(peer.number, relay_done) >= relay_count(grant.number, pieces);
    });
    return failed ? Status::failure(Code::error, "the peer can't copy from or to its device") : status;
  };
  std::uint64_t n = 0;
  for (std::size_t at = 0; at < range.size; at += piece, ++n) {
    const std::size_t size = std::min(piece, range.size - at);
    const Endpoint::Place place(RelayLayout::place_of(grant.slot, n), true);
    const std::uint64_t moved = relay_count(grant.number, n + 1);
    Transfer transfer;
    if (move == Move::put) {
      const std::byte* source = local + at;
      Status status = n >= 2 ? wait_done(n - 1) : Status{};
      if (status.ok() && staged) status = out->next(source);
      if (status.ok())
        status = endpoint_.put_signal(peer.number, place, source, size, relay_pieces, std::span(&moved, 1), transfer);
      if (status.ok()) status = finish(transfer, deadline);
      if (!status.ok()) return status;
    } else {
      Status status = wait_done(n + 1);
      if (status.ok() && staged) status = stage->wait(n);
      if (status.ok()) status = endpoint_.get(peer.number, place, staged ? stage->half(n) : local + at, size, transfer);
      if (status.ok()) status = finish(transfer, deadline);
      if (status.ok() && staged) status = stage->start_to_device(n, local + at, size);
      if (status.ok()) status = signal(peer, relay_pieces, std::span(&moved, 1), deadline);
      if (!status.ok()) return status;
    }
  }
  if (move == Move::put) return wait_done(n);
  return staged ? stage->wait_for_all() : Status{};
}

Status DataPlane::start(Move move, const std::shared_ptr<Peer>& peer, const Range& range, Deadline deadline,
                        std::uint64_t& id) noexcept {
  if (const Status status = check(*peer, range.local, range.size); !status.ok()) return status;
  Started started{peer, {}};
  const bool staged = !endpoint_.buffer().host_accessible || endpoint_.peer_relay_bytes(peer->number) != 0;
  const Status status = staged ? this->move(move, *peer, range, range.size, 1, deadline)
                               : start_one(move, peer->number, range, started.transfer);
  if (!status.ok()) return status;
  try {
    const std::lock_guard guard(started_lock_);
    id = next_id();
    started_.emplace(id, started);
  } catch (const std::bad_alloc&) {
    endpoint_.abandon(started.transfer);
    return Status::failure(Code::out_of_memory, "no memory for a transfer");
  }
  return {};
}

Status DataPlane::wait(std::uint64_t id, Deadline deadline) noexcept {
  std::map<std::uint64_t, Started>::node_type taken;
  {
    const std::lock_guard guard(started_lock_);
    taken = started_.extract(id);
  }
  if (taken.empty()) return Status::failure(Code::not_found, "no transfer in flight has this id");
  const Status status = endpoint_.wait(taken.mapped().transfer, deadline);
  if (status.code == Code::timeout) {
    const std::lock_guard guard(started_lock_);
    started_.insert(std::move(taken));
  }
  return status;
}

// ---- control words

template <typename Condition>
Status DataPlane::wait_for(const Peer& peer, Deadline deadline, Condition&& condition) const noexcept {
  constexpr unsigned quick_polls = 2000;  // then this thread sleeps between polls
  for (unsigned polls = 0; !condition(); ++polls) {
    if (polls % 64 == 63) {
      if (const Status status = peers_.status(peer); !status.ok()) return condition() ? Status{} : status;
      if (deadline.expired()) return Status::failure(Code::timeout, "the peer hasn't made the matching call in time");
      if (polls >= quick_polls && base::is_interrupted())
        return Status::failure(Code::timeout, "the program interrupted the wait");
    }
    if (polls < quick_polls) {
      ::sched_yield();
    } else {
      const timespec nap{0, 50'000};
      ::nanosleep(&nap, nullptr);
    }
  }
  return {};
}

Status DataPlane::signal(const Peer& peer, std::size_t first, std::span<const std::uint64_t> values,
                         Deadline deadline) noexcept {
  Transfer transfer;
  const Status status = endpoint_.put_signal(peer.number, 0, nullptr, 0, first, values, transfer);
  return status.ok() ? finish(transfer, deadline) : status;
}

// ---- send and receive: the receiver states the position in its buffer, and the sender puts the bytes there

Status DataPlane::send(Peer& peer, std::size_t offset, std::size_t size, Deadline deadline) noexcept {
  if (const Status status = check(peer, offset, size); !status.ok()) return status;
  const std::lock_guard guard(peer.send.lock);
  if (peer.send.broken) return stream_is_broken();
  InMessage message(peer.send);
  const std::uint64_t number = ++peer.send.messages;
  const auto posted = [&] { return endpoint_.word(peer.number, receive_message) >= number; };
  if (const Status status = wait_for(peer, deadline, posted); !status.ok()) return message.end(status);
  const std::uint64_t place = endpoint_.word(peer.number, receive_offset);
  if (endpoint_.word(peer.number, receive_bytes) < size) {
    const std::uint64_t values[] = {not_sent, number};
    if (const Status status = signal(peer, sent_bytes, values, deadline); !status.ok()) return message.end(status);
    return message.end(Status::failure(Code::out_of_range, "the peer receives fewer bytes than this side sends"));
  }
  const Status status = move(Move::put, peer, {offset, place, size}, SIZE_MAX, 1, deadline);
  if (!status.ok()) return status;
  const std::uint64_t values[] = {size, number};
  return message.end(signal(peer, sent_bytes, values, deadline));
}

Status DataPlane::receive(Peer& peer, std::size_t offset, std::size_t size, Deadline deadline) noexcept {
  if (const Status status = check(peer, offset, size); !status.ok()) return status;
  const std::lock_guard guard(peer.receive.lock);
  if (peer.receive.broken) return stream_is_broken();
  InMessage message(peer.receive);
  const std::uint64_t number = ++peer.receive.messages;
  const std::uint64_t values[] = {offset, size, number};
  if (const Status status = signal(peer, receive_offset, values, deadline); !status.ok()) return status;
  const auto sent = [&] { return endpoint_.word(peer.number, sent_message) >= number; };
  if (const Status status = wait_for(peer, deadline, sent); !status.ok()) return status;
  if (endpoint_.word(peer.number, sent_bytes) == not_sent)
    return message.end(Status::failure(Code::out_of_range, "the peer sends more bytes than this side receives"));
  return message.end({});
}

// ---- send_data and receive_data: through the two halves of the receiver's buffer
//
//   sender     data_bytes, data_message    announces a message
//   receiver   data_verdict, data_grant, data_answer
//   sender     puts chunk c into half c % 2 when data_grant > c, then data_chunks = c + 1
//   receiver   copies chunk c to the user's memory, then data_grant = c + 3
//
// Chunks are numbered over all messages from this sender to this receiver. The sender's copy, the wire and the
// receiver's copy work on different chunks at the same time.

Status DataPlane::send_data(Peer& peer, const void* data, std::size_t size, MemoryType type,
                            Deadline deadline) noexcept {
  if (data == nullptr && size > 0) return Status::failure(Code::invalid_argument, "the pointer is null");
  if (const Status status = check_type(type); !status.ok()) return status;
  if (const Status status = peers_.status(peer); !status.ok()) return status;
  const std::uint64_t relay_bytes = endpoint_.peer_relay_bytes(peer.number);
  const std::size_t half = half_of(endpoint_.peer_bytes(peer.number), relay_bytes);
  if (half == 0) return Status::failure(Code::invalid_config, "the peer's buffer is smaller than 2 bytes");
  const std::lock_guard guard(peer.data_send.lock);
  if (peer.data_send.broken) return stream_is_broken();
  InMessage message(peer.data_send);
  const std::uint64_t number = ++peer.data_send.messages;
  const std::uint64_t values[] = {size, number};
  if (const Status status = signal(peer, data_bytes, values, deadline); !status.ok()) return status;
  const auto answered = [&] { return endpoint_.word(peer.number, data_answer) >= number; };
  if (const Status status = wait_for(peer, deadline, answered); !status.ok()) return status;
  if (endpoint_.word(peer.number, data_verdict) == too_long)
    return message.end(Status::failure(Code::out_of_range, "the message is longer than the peer's memory for it"));
  try {
    const Status status =
        send_chunks(peer, static_cast<const std::byte*>(data), size, half, relay_bytes != 0, deadline);
    if (!status.ok()) return status;
  } catch (const Error& error) {
    return from(error);
  } catch (const std::exception&) {
    return Status::failure(Code::out_of_memory, "no memory to stage device memory");
  }
  peer.data_send.chunks += chunks_of(size, half);
  return message.end({});
}

Status DataPlane::send_chunks(Peer& peer, const std::byte* data, std::size_t size, std::size_t half, bool to_relay,
                              Deadline deadline) {
  const memory::Owner owner = memory::owner_of(data);
  const bool staged = owner.info.kind == memory::PointerKind::device;
  memory::StageLease stage;
  if (staged) stage = memory::StageLease(*owner.provider, owner.info.device);
  const std::size_t piece = staged ? std::min(memory::staged_piece(size), half) : half;
  const std::uint64_t begin = peer.data_send.chunks;
  const std::uint64_t end = begin + chunks_of(size, half);
  Transfer in_flight[2];
  Status status;
  for (std::uint64_t c = begin; c < end && status.ok(); ++c) {
    const std::size_t at = (c - begin) * half;
    const std::size_t bytes = std::min(half, size - at);
    const Endpoint::Place place(c % 2 * half, to_relay);
    status = finish(in_flight[c % 2], deadline);
    if (status.ok()) {
      status = wait_for(peer, deadline, [&] { return endpoint_.word(peer.number, data_grant) > c; });
    }
    if (!status.ok()) break;
    const std::uint64_t arrived = c + 1;
    if (!staged) {
      status = endpoint_.put_signal(peer.number, place, data + at, bytes, data_chunks, std::span(&arrived, 1),
                                    in_flight[c % 2]);
      continue;
    }
    memory::OutPieces pieces(*stage, data + at, bytes, piece);
    for (std::size_t done = 0; done < bytes && status.ok(); done += piece) {
      const std::size_t part = std::min(piece, bytes - done);
      const std::byte* from_stage = nullptr;
      status = pieces.next(from_stage);
      if (!status.ok()) break;
      const bool last = done + part == bytes;
      status = endpoint_.put_signal(peer.number, {place.offset + done, to_relay}, from_stage, part, data_chunks,
                                    std::span(&arrived, last ? 1 : 0), in_flight[c % 2]);
      if (status.ok()) status = finish(in_flight[c % 2], deadline);
    }
  }
  for (Transfer& transfer : in_flight) {
    if (!status.ok()) {
      endpoint_.abandon(transfer);
    } else {
      status = finish(transfer, deadline);
    }
  }
  return status;
}

Status DataPlane::receive_data(Peer& peer, void* data, std::size_t capacity, MemoryType type, std::size_t& received,
                               Deadline deadline) noexcept {
  received = 0;
  if (data == nullptr && capacity > 0) return Status::failure(Code::invalid_argument, "the pointer is null");
  if (const Status status = check_type(type); !status.ok()) return status;
  if (const Status status = peers_.status(peer); !status.ok()) return status;
  const std::size_t half = half_of(endpoint_.buffer().bytes, endpoint_.has_relay() ? endpoint_.exposed().bytes : 0);
  if (half == 0) return Status::failure(Code::invalid_config, "this side's buffer is smaller than 2 bytes");
  const std::lock_guard guard(peer.data_receive.lock);
  if (peer.data_receive.broken) return stream_is_broken();
  const std::uint64_t number = peer.data_receive.messages + 1;
  const auto announced = [&] { return endpoint_.word(peer.number, data_message) >= number; };
  // The message isn't consumed yet: after a timeout the call may be repeated.
  if (const Status status = wait_for(peer, deadline, announced); !status.ok()) return status;
  InMessage message(peer.data_receive);
  peer.data_receive.messages = number;
  received = endpoint_.word(peer.number, data_bytes);
  const std::uint64_t begin = peer.data_receive.chunks;
  if (received > capacity) {
    const std::uint64_t values[] = {too_long, begin, number};
    if (const Status status = signal(peer, data_verdict, values, deadline); !status.ok()) return status;
    return message.end(Status::failure(Code::out_of_range, "the message is longer than the memory for it"));
  }
  // One message at a time arrives in the halves; other peers' messages wait for their turn.
  const std::lock_guard guard_of_halves(halves_.lock);
  if (const Status status = wait_for_halves(deadline); !status.ok()) return status;
  const std::uint64_t values[] = {accepted, std::min(begin + chunks_of(received, half), begin + 2), number};
  halves_.endpoint = &endpoint_;
  halves_.peer = peer.number;
  halves_.chunks = values[1];
  if (const Status status = signal(peer, data_verdict, values, deadline); !status.ok()) return status;
  try {
    const Status status = drain_chunks(peer, static_cast<std::byte*>(data), received, half, deadline);
    if (!status.ok()) return status;
  } catch (const Error& error) {
    return from(error);
  }
  halves_.endpoint = nullptr;
  return message.end({});
}

/// The sender of a message whose receive has failed may still put the chunks that were granted to it.
Status DataPlane::wait_for_halves(Deadline deadline) noexcept {
  while (halves_.endpoint != nullptr && halves_.endpoint->status(halves_.peer).ok() &&
         halves_.endpoint->word(halves_.peer, data_chunks) < halves_.chunks) {
    if (deadline.expired())
      return Status::failure(Code::timeout, "the sender of an earlier message still uses this side's buffer");
    ::sched_yield();
  }
  halves_.endpoint = nullptr;
  return {};
}

Status DataPlane::drain_chunks(Peer& peer, std::byte* data, std::size_t size, std::size_t half, Deadline deadline) {
  const memory::Owner owner = memory::owner_of(data);
  const std::uint64_t begin = peer.data_receive.chunks;
  const std::uint64_t end = begin + chunks_of(size, half);
  for (std::uint64_t c = begin; c < end; ++c) {
    Status status = wait_for(peer, deadline, [&] { return endpoint_.word(peer.number, data_chunks) > c; });
    if (!status.ok()) return status;
    const std::size_t at = (c - begin) * half;
    const std::size_t bytes = std::min(half, size - at);
    const std::byte* const arrived = endpoint_.exposed().address + c % 2 * half;
    if (owner.info.kind == memory::PointerKind::device) {
      status = owner.provider->copy_from_host(data + at, arrived, bytes);
      if (!status.ok()) return status;
    } else {
      std::memcpy(data + at, arrived, bytes);
    }
    const std::uint64_t grant = std::min(end, c + 3);
    if (c + 2 >= end) continue;  // all are granted
    halves_.chunks = grant;
    status = signal(peer, data_grant, std::span(&grant, 1), deadline);
    if (!status.ok()) return status;
  }
  peer.data_receive.chunks = end;
  return {};
}

}  // namespace hmc::compat
