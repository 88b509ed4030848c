// The sending side of Messenger: the calls, records into rings, flow control, and pieces into slots.
#include <algorithm>
#include <cstring>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/p2p/messenger.hpp"
#include "runtime/progress/nudge.hpp"

namespace hmc::p2p {

using base::Status;

/// 1. An eager message goes into the peer's ring: the call is over.
/// 2. Any other is an operation, in the order of the calls. Its header goes into the ring, with the first pieces on a
///    node, as soon as there is room: push_send().
/// 3. The peer has matched it: it grants the rest (take_grant), or has copied the bytes itself (Kind::finished).
void Messenger::send(const Call& call) {
  if (send_at_once(call)) [[likely]]
    return;
  const Waiting waiting(fabric_.background, Entry::blocks);
  Operation* operation = nullptr;
  {
    const auto guard = hold_always();
    operation = &start_send(call);
  }
  wait_for(call, *operation);
}

Request Messenger::isend(const Call& call) {
  if (send_at_once(call)) [[likely]]
    return Request::from_raw({nullptr, 0, call.name, source_index(), call.team.world_rank(call.peer)});
  const Visit visit(fabric_.background, true, Entry::starts);
  return leave_in_flight(start_send(call), call);
}

/// The fast path: an eager message to a rank of this node.
bool Messenger::send_at_once(const Call& call) {
  Peer* peer = nullptr;
  {
    const auto guard = hold();
    require_usable(call);
    peer = &peer_of(call.team.world_rank(call.peer));
    const bool is_first = peer->area != nullptr && !peer->busy && !peer->revoked && !memory::devices_present();
    if (is_first && try_eager(*peer, call.team.agreed_id, call.team.rank(), call.tag, call.data, call.bytes))
        [[likely]] {
      wake(*peer);
      return true;
    }
  }
  if (peer->revoked)
    throw_error(Status::failure(Code::error, "an earlier send to this rank has timed out", peer->world), call.name,
                peer->world, call.bytes);
  return false;
}

Operation& Messenger::start_send(const Call& call) {
  Operation& send = open(call, true);
  Peer& peer = *send.peer;
  send.source = call.team.rank();
  send.stage = Stage::queued;
  send.remote = {send.ticket, 0, 0, 0};
  if (call.bytes > payload_max_ && peer.area != nullptr) {
    if (const auto* const in = fabric_.windows.around(send.data, call.bytes, call.team.id(), false)) {
      send.remote.window = in->id() + 1;
      send.remote.offset = static_cast<std::uint64_t>(send.data - in->data());
    }
  }
  ++in_flight_;
  peer.waiting.push_back(send);
  push(peer);
  if (!peer.waiting.is_empty() || !peer.controls.empty() || !peer.puts.empty()) mark_busy(peer);
  return send;
}

// ---- records

/// Called after bytes became visible to a peer on this node. A wire wakes its target itself.
void Messenger::wake(const Peer& peer) const noexcept {
  if (peer.area == nullptr || peer.world == fabric_.rank) return;
  const int index = fabric_.peer(peer.world).local_index;
  fabric_.waiter.ring(index);
  progress::nudge(fabric_.waiter.page().doorbell(index));
}

void Messenger::put_word(Peer& peer, std::uint64_t offset, std::uint64_t value) noexcept {
  if (peer.area != nullptr) {
    // Release: pairs with the acquire of the peer that reads the word (find_new_senders, is_revoked).
    word(peer.area + offset).store(value, std::memory_order_release);
    return;
  }
  transport::Ticket ticket = transport::done;
  const Status status = peer.channel->put_signal(0, nullptr, 0, offset_ + offset, value, ticket);
  if (!status.ok()) return fail_all(status);
  if (ticket != transport::done) peer.puts.push_back(ticket);
}

/// Puts a record into the peer's ring; wake() follows. False without room. `header`: all but the stamp.
bool Messenger::write_record(Peer& peer, Kind kind, const Header& header, const void* payload) noexcept {
  RingWriter& ring = peer.ring;
  const std::size_t record = record_bytes(header.payload);
  if (!ring.has_room(record)) {
    std::byte* const line = area_ + layout_.line(peer.world);
    // Acquire: pairs with return_credit(); this rank's next stores come after the peer's reads of the old records.
    ring.set_consumed(word(line + offsetof(PairLine, consumed)).load(std::memory_order_acquire));
    if (!ring.has_room(record)) return false;
  }
  if (ring.must_wrap(record)) {  // it would pass the ring's end, so it starts at the begin
    const std::uint64_t at = ring.position();
    const std::uint64_t stamp = ring.next_stamp(Kind::wrap);
    put_word(peer, layout_.ring(fabric_.rank) + at, stamp);
    ring.advance(layout_.ring_bytes() - at);
  }
  std::byte* const here = ring.memory() + ring.position();
  constexpr std::size_t after_stamp = sizeof header.stamp;
  std::memcpy(here + after_stamp, reinterpret_cast<const std::byte*>(&header) + after_stamp,
              sizeof header - after_stamp);
  if (header.payload > 0) std::memcpy(here + payload_offset(header.payload), payload, header.payload);
  const bool is_cleared = ring.clear_next(record);
  const std::uint64_t stamp = ring.next_stamp(kind);
  if (peer.area != nullptr) {
    // Release: pairs with RingReader::peek().
    word(here).store(stamp, std::memory_order_release);
  } else {
    const std::uint64_t there = offset_ + layout_.ring(fabric_.rank) + ring.position();
    transport::Ticket ticket = transport::done;
    const Status status =
        peer.channel->put_signal(there + 8, here + 8, is_cleared ? record : record - 8, there, stamp, ticket);
    if (!status.ok()) {
      fail_all(status);
      return true;
    }
    if (ticket != transport::done) peer.puts.push_back(ticket);
  }
  ring.advance(record);
  if (!peer.announced) [[unlikely]] {
    peer.announced = true;
    put_word(peer, layout_.announcement(fabric_.rank), 1);
  }
  return true;
}

/// The number of bytes, up to `wanted` (at least 1), that the peer can keep if no receive matches this rank's messages.
std::uint64_t Messenger::unmatched_room(Peer& peer, std::uint64_t wanted) noexcept {
  const auto room = [&]() noexcept {
    const std::uint64_t used = peer.sent_cost - peer.matched_cost + message_cost;
    return used < unmatched_max_ ? unmatched_max_ - used : 0;
  };
  if (room() < wanted) [[unlikely]]
    // Relaxed: an old value only makes this rank send less.
    peer.matched_cost =
        word(area_ + layout_.line(peer.world) + offsetof(PairLine, matched)).load(std::memory_order_relaxed);
  return std::min(room(), wanted);
}

/// False without room in the ring, or if the message is too large for it or for the peer's memory.
bool Messenger::try_eager(Peer& peer, std::uint32_t team, int source, int tag, const void* data,
                          std::size_t bytes) noexcept {
  const std::uint64_t wanted = std::max<std::uint64_t>(bytes, 1);  // an empty message needs memory, too
  if (bytes > payload_max_ || unmatched_room(peer, wanted) < wanted) return false;
  if (!write_record(peer, Kind::eager, {0, team, source, tag, static_cast<std::uint32_t>(bytes), bytes}, data))
    return false;
  peer.sent_cost += bytes + message_cost;
  return true;
}

/// The first waiting send: its message or header, then the pieces that it may send now. False if the ring has no room.
bool Messenger::push_send(Peer& peer) noexcept {
  Operation& send = *peer.waiting.front();
  if (send.stage == Stage::queued) {
    if (!peer.revoked && try_eager(peer, send.team, send.source, send.tag, send.data, send.bytes)) {
      peer.waiting.pop_front();
      finish(send, {});
      return true;
    }
    const std::uint64_t wanted = std::max<std::uint64_t>(send.bytes, 1);
    const std::uint64_t room = unmatched_room(peer, wanted);
    if (send.bytes <= payload_max_ && room == wanted) return false;
    // The receiver may copy from a window. It copies from itself in any case.
    const bool is_copied = send.remote.window != 0 || peer.area == nullptr || peer.world == fabric_.rank;
    send.remote.early = is_copied ? 0 : std::min<std::uint64_t>(room, send.bytes);
    if (!write_record(peer, Kind::rendezvous, {0, send.team, send.source, send.tag, sizeof(Remote), send.bytes},
                      &send.remote))
      return false;
    if (send.remote.early > 0) peer.sent_cost += send.remote.early + message_cost;
    send.granted = send.remote.early;
    send.stage = Stage::sending;
    count_moves();
  }
  while (send.moved < send.granted) {
    const std::uint64_t bytes = std::min<std::uint64_t>(send.granted - send.moved, payload_max_);
    if (!write_record(peer, Kind::piece, {0, 0, -1, -1, static_cast<std::uint32_t>(bytes), send.ticket},
                      send.data + send.moved))
      return false;
    send.moved += bytes;
    count_moves();
  }
  peer.waiting.pop_front();
  if (send.moved == send.bytes && send.bytes > 0)
    finish(send, {});
  else
    send.stage = Stage::published;
  return true;
}

/// Writes what waits for room, and completes puts on the wire. Answers first: no order between them and messages.
int Messenger::push(Peer& peer) noexcept {
  const std::uint64_t before = moves();
  const std::uint64_t written = peer.ring.written();
  std::size_t done = 0;
  for (; done < peer.controls.size(); ++done) {
    const Control& control = peer.controls[done];
    if (!write_record(peer, control.kind, {0, 0, -1, -1, sizeof control.words, control.bytes}, control.words.data()))
      break;
    count_moves();
  }
  peer.controls.erase(peer.controls.begin(), peer.controls.begin() + static_cast<std::ptrdiff_t>(done));
  while (peer.controls.empty() && !peer.waiting.is_empty() && failure_.ok())
    if (!push_send(peer)) break;
  if (peer.ring.written() != written) wake(peer);

  std::size_t complete = 0;
  for (; complete < peer.puts.size(); ++complete) {
    const Status status = fabric_.tickets.test(peer.wire, peer.puts[complete]);
    if (status.code == Code::in_progress) break;
    if (!status.ok()) {
      peer.puts[complete] = transport::done;
      fail_all(status);
      break;
    }
    count_moves();
  }
  peer.puts.erase(peer.puts.begin(), peer.puts.begin() + static_cast<std::ptrdiff_t>(complete));
  if (peer.credit_put != transport::done) return_credit(peer);
  return static_cast<int>(moves() - before);
}

void Messenger::answer(Peer& peer, const Control& control) noexcept {
  try {
    peer.controls.push_back(control);
  } catch (const std::bad_alloc&) {
    return fail_all(Status::failure(Code::out_of_memory, "no memory for an answer"));
  }
  mark_busy(peer);
  push(peer);
}

/// A receive has matched. words: the send's ticket; between nodes also the piece's position in the message, the slot,
/// the value of its signal.
void Messenger::take_grant(Peer& peer, const Header& grant, const std::uint64_t* words) noexcept {
  Operation* const send = find(words[0]);
  if (send == nullptr) return;  // its call has timed out
  if (peer.area != nullptr) {   // the rest needs no memory of the receiver
    send->granted = send->bytes;
    if (send->stage == Stage::sending) return;  // it is still in the list
    send->stage = Stage::sending;
    peer.waiting.push_back(*send);
    mark_busy(peer);
    push(peer);
    return;
  }
  const auto slot = static_cast<int>(words[2]);
  const std::byte* const from = send->data + words[1];
  // The receiver may grant a slot again before this rank has seen the end of the slot's last put.
  while (std::ranges::find(send->pieces, transport::done) == send->pieces.end()) {
    if (const Status aborted = fabric_.waiter.page().aborted(); !aborted.ok()) return fail_all(aborted);
    complete_pieces();
    if (!failure_.ok()) return;
  }
  send->moved += grant.bytes;
  transport::Ticket ticket = transport::done;
  const Status status = peer.channel->put_signal(offset_ + layout_.slot(slot), from, grant.bytes,
                                                 offset_ + layout_.slot_signal(slot), words[3], ticket);
  if (!status.ok()) return fail_all(status);
  if (ticket != transport::done) {
    *std::ranges::find(send->pieces, transport::done) = ticket;
    if (std::ranges::find(putting_, send) == putting_.end()) putting_.push_back(send);  // reserved
  } else if (send->moved == send->bytes && std::ranges::find(putting_, send) == putting_.end()) {
    finish(*send, {});
  }
}

/// Completes puts of pieces.
int Messenger::complete_pieces() noexcept {
  const std::uint64_t before = moves();
  for (std::size_t i = 0; i < putting_.size(); ++i) {
    Operation& send = *putting_[i];
    bool is_left = false;
    for (transport::Ticket& piece : send.pieces) {
      if (piece == transport::done) continue;
      const Status status = fabric_.tickets.test(send.peer->wire, piece);
      if (status.code == Code::in_progress) {
        is_left = true;
        continue;
      }
      piece = transport::done;
      if (!status.ok()) {
        fail_all(status);
        return 1;
      }
      count_moves();
    }
    if (is_left) continue;
    putting_[i--] = putting_.back();
    putting_.pop_back();
    if (send.moved == send.bytes) finish(send, {});
  }
  return static_cast<int>(moves() - before);
}

}  // namespace hmc::p2p
