// The sending side of Messenger: records into rings, flow control, and pieces into slots.
#include <algorithm>
#include <cstring>

#include "runtime/p2p/messenger.hpp"
#include "runtime/progress/nudge.hpp"

namespace hmc::p2p {

using base::Status;

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
  if (!status.ok()) return fail(status);
  if (ticket != transport::done) peer.puts.push_back(ticket);
}

/// The place of the next record; null without room. A record that would pass the ring's end starts at its begin.
std::byte* Messenger::open_record(Peer& peer, std::size_t record) noexcept {
  RingWriter& ring = peer.ring;
  if (!ring.has_room(record)) {
    std::byte* const line = area_ + layout_.line(peer.world);
    // Acquire: pairs with return_credit(); this rank's next stores come after the peer's reads of the old records.
    ring.set_consumed(word(line + offsetof(PairLine, consumed)).load(std::memory_order_acquire));
    if (!ring.has_room(record)) return nullptr;
  }
  if (ring.must_wrap(record)) {
    const std::uint64_t at = ring.position();
    const std::uint64_t stamp = ring.next_stamp(Kind::wrap);
    put_word(peer, layout_.ring(fabric_.rank) + at, stamp);
    ring.advance(layout_.ring_bytes() - at);
  }
  return ring.memory() + ring.position();
}

void Messenger::publish(Peer& peer, std::size_t record, Kind kind) noexcept {
  RingWriter& ring = peer.ring;
  const std::uint64_t position = ring.position();
  const std::uint64_t at = offset_ + layout_.ring(fabric_.rank) + position;
  const std::uint64_t stamp = ring.next_stamp(kind);
  if (peer.area != nullptr) {
    // Release: pairs with RingReader::peek().
    word(ring.memory() + position).store(stamp, std::memory_order_release);
  } else {
    transport::Ticket ticket = transport::done;
    const Status status = peer.channel->put_signal(at + 8, ring.memory() + position + 8, record - 8, at, stamp, ticket);
    if (!status.ok()) return fail(status);
    if (ticket != transport::done) peer.puts.push_back(ticket);
  }
  ring.advance(record);
  if (!peer.announced) [[unlikely]] {
    peer.announced = true;
    put_word(peer, layout_.announcement(fabric_.rank), 1);
  }
  wake(peer);
}

/// False if the message must wait, or goes by rendezvous.
bool Messenger::try_eager(Peer& peer, std::uint32_t team, int source, int tag, const void* data,
                          std::size_t bytes) noexcept {
  if (bytes > eager_max_ || peer.busy || peer.revoked) return false;
  const std::uint64_t cost = peer.eager_cost + bytes + message_cost;
  if (cost - peer.matched_cost > eager_budget_) [[unlikely]] {
    std::byte* const line = area_ + layout_.line(peer.world);
    // Relaxed: an old value only makes this rank choose rendezvous.
    peer.matched_cost = word(line + offsetof(PairLine, matched)).load(std::memory_order_relaxed);
    if (cost - peer.matched_cost > eager_budget_) return false;
  }
  const std::size_t record = record_bytes(bytes);
  std::byte* const at = open_record(peer, record);
  if (at == nullptr) return false;
  auto* const header = reinterpret_cast<Header*>(at);
  header->team = team;
  header->source = source;
  header->tag = tag;
  header->payload = static_cast<std::uint32_t>(bytes);
  header->bytes = bytes;
  if (bytes > 0) std::memcpy(header + 1, data, bytes);
  peer.eager_cost = cost;
  publish(peer, record, Kind::eager);
  return true;
}

/// False if the ring has no room.
bool Messenger::push_operation(Peer& peer, Operation& send) noexcept {
  const bool was_busy = std::exchange(peer.busy, false);  // the operation is the first that waits
  const bool is_sent = try_eager(peer, send.team, send.source, send.tag, send.data, send.bytes);
  peer.busy = was_busy;
  if (is_sent) {
    peer.waiting.pop_front();
    finish(send, {});
    return true;
  }
  const bool fits_budget =
      send.bytes <= eager_max_ && peer.eager_cost + send.bytes + message_cost - peer.matched_cost <= eager_budget_;
  if (fits_budget) return false;
  const std::size_t record = record_bytes(sizeof(Remote));
  std::byte* const at = open_record(peer, record);
  if (at == nullptr) return false;
  auto* const header = reinterpret_cast<Header*>(at);
  header->team = send.team;
  header->source = send.source;
  header->tag = send.tag;
  header->payload = sizeof(Remote);
  header->bytes = send.bytes;
  std::memcpy(header + 1, &send.remote, sizeof(Remote));
  peer.waiting.pop_front();
  send.stage = Stage::published;
  publish(peer, record, Kind::rendezvous);
  count_move();
  return true;
}

/// Writes what waits for room, and completes puts on the wire. Answers first: no order between them and messages.
int Messenger::push(Peer& peer) noexcept {
  const std::uint64_t before = moves();
  std::size_t done = 0;
  for (; done < peer.controls.size(); ++done) {
    const Control& control = peer.controls[done];
    const std::size_t record = record_bytes(sizeof control.words);
    std::byte* const at = open_record(peer, record);
    if (at == nullptr) break;
    auto* const header = reinterpret_cast<Header*>(at);
    header->team = 0;
    header->source = header->tag = -1;
    header->payload = sizeof control.words;
    header->bytes = control.bytes;
    std::memcpy(header + 1, control.words.data(), sizeof control.words);
    publish(peer, record, control.kind);
    count_move();
  }
  peer.controls.erase(peer.controls.begin(), peer.controls.begin() + static_cast<std::ptrdiff_t>(done));
  while (peer.controls.empty() && !peer.waiting.is_empty() && failure_.ok())
    if (!push_operation(peer, *peer.waiting.front())) break;

  std::size_t complete = 0;
  for (; complete < peer.puts.size(); ++complete) {
    const Status status = fabric_.tickets.test(peer.wire, peer.puts[complete]);
    if (status.code == Code::in_progress) break;
    if (!status.ok()) {
      peer.puts[complete] = transport::done;
      fail(status);
      break;
    }
    count_move();
  }
  peer.puts.erase(peer.puts.begin(), peer.puts.begin() + static_cast<std::ptrdiff_t>(complete));
  if (peer.credit_put != transport::done) return_credit(peer);
  return static_cast<int>(moves() - before);
}

void Messenger::answer(Peer& peer, const Control& control) noexcept {
  try {
    peer.controls.push_back(control);
  } catch (const std::bad_alloc&) {
    return fail(Status::failure(Code::out_of_memory, "no memory for an answer"));
  }
  mark_busy(peer);
  push(peer);
}

/// words: the send's ticket, the piece's position in the message, the slot, the value of the slot's signal.
void Messenger::put_piece(Peer& peer, const Header& grant, const std::uint64_t* words) noexcept {
  Operation* const send = find(words[0]);
  if (send == nullptr || send->stage != Stage::published) return;  // its call has timed out
  const auto slot = static_cast<int>(words[2]);
  const std::byte* const from = send->data + words[1];
  if (peer.area != nullptr) {
    send->moved += grant.bytes;
    std::memcpy(peer.area + layout_.slot(slot), from, grant.bytes);
    // Release: pairs with receive_slots(); the bytes are visible with the signal.
    word(peer.area + layout_.slot_signal(slot)).store(words[3], std::memory_order_release);
    wake(peer);
    if (send->moved == send->bytes) finish(*send, {});
    return;
  }
  // The receiver may grant a slot again before this rank has seen the end of the slot's last put.
  while (std::ranges::find(send->pieces, transport::done) == send->pieces.end()) {
    if (const Status aborted = fabric_.waiter.page().aborted(); !aborted.ok()) return fail(aborted);
    complete_pieces();
    if (!failure_.ok()) return;
  }
  send->moved += grant.bytes;
  transport::Ticket ticket = transport::done;
  const Status status = peer.channel->put_signal(offset_ + layout_.slot(slot), from, grant.bytes,
                                                 offset_ + layout_.slot_signal(slot), words[3], ticket);
  if (!status.ok()) return fail(status);
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
        fail(status);
        return 1;
      }
      count_move();
    }
    if (is_left) continue;
    putting_[i--] = putting_.back();
    putting_.pop_back();
    if (send.moved == send.bytes) finish(send, {});
  }
  return static_cast<int>(moves() - before);
}

}  // namespace hmc::p2p
