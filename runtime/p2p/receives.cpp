// The receiving side of Messenger: the calls, records out of rings, matching, and the bytes of a rendezvous.
#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/p2p/messenger.hpp"

namespace hmc::p2p {

using base::Status;

namespace {

/// Records of one sender per step, so that all senders and the checks of a wait get their turn.
constexpr int records_per_step = 64;

}  // namespace

MessageStatus Messenger::recv(const Call& call) {
  Peer* const only = begin(call);
  if (MessageStatus status; !is_shared() && !memory::devices_present() && receive_at_once(call, only, status))
      [[likely]]
    return status;
  const Waiting waiting(fabric_.background, Entry::blocks);
  Operation* operation = nullptr;
  {
    const auto guard = hold_always();
    operation = &start_receive(call, nullptr);
  }
  return wait_for(call, *operation);
}

/// The fast path of recv: the next message of the source matches, and it is eager. Otherwise it stays in its ring.
/// `from`: null: any source.
bool Messenger::receive_at_once(const Call& call, Peer* from, MessageStatus& status) {
  const auto is_kept = [&]() noexcept { return call.peer >= 0 ? !from->unexpected.is_empty() : unexpected_ > 0; };
  if (is_kept()) return false;
  if (call.peer >= 0 ? from->world == fabric_.rank : call.team.size() == 1)
    if (call.peer < 0 || from->inbox.peek() == nullptr) return false;  // wait_for() finds out if it can come
  const Header* record = nullptr;
  const auto arrived = [&]() noexcept {
    record = nullptr;
    if (is_shared() || is_kept()) return true;  // another thread's call during this wait has received a message
    if (call.peer >= 0) {
      record = from->inbox.peek();
      return record != nullptr;
    }
    find_new_senders();
    for (std::size_t i = 0; i < senders_.size() && record == nullptr; ++i) {
      if (next_sender_ >= senders_.size()) next_sender_ = 0;
      from = senders_[next_sender_++];
      record = from->inbox.peek();
    }
    return record != nullptr;
  };
  const int world = call.peer >= 0 ? from->world : -1;
  const base::WaitNote note{call.activity, world, 0, this, call.bytes};
  if (const Status waited = fabric_.waiter.until(note, arrived, fabric_.timeout); !waited.ok()) [[unlikely]] {
    if (waited.code == Code::peer_failed || waited.code == Code::aborted) fail_all(waited);
    throw_error(waited, call.name, world, call.bytes);
  }
  if (record == nullptr || kind_of(record->stamp) != Kind::eager || record->team != call.team.agreed_id ||
      (call.tag != any_tag && record->tag != call.tag) || record->bytes > call.bytes)
    return false;
  status = {record->source, record->tag, static_cast<std::size_t>(record->bytes)};
  if (record->bytes > 0) std::memcpy(call.data, payload_of(*record), record->bytes);
  from->inbox.consume(record_bytes(record->payload));
  note_matched(*from, status.bytes);
  if (!busy_.empty()) [[unlikely]] {  // a put of the number of consumed bytes is in flight on a wire
    const Visit visit(fabric_.background, true, Entry::blocks);
    share();
  }
  return true;
}

Request Messenger::irecv(const Call& call, MessageStatus* status) {
  begin(call);
  const Visit visit(fabric_.background, true, Entry::starts);
  Operation& operation = start_receive(call, status);
  return leave_in_flight(operation, call);
}

Operation& Messenger::start_receive(const Call& call, MessageStatus* status) {
  Operation& receive = open(call, false);
  receive.status = status;
  receive.order = ++orders_;
  receive.stage = Stage::posted;
  ++in_flight_;
  by_owner_ = true;
  if (Unexpected* const found = find_unexpected(receive.peer, {receive.team, receive.tag})) {
    Peer& from = *peers_[static_cast<std::size_t>(found->envelope.world)];
    from.unexpected.remove(*found);
    --unexpected_;
    const std::unique_ptr<Unexpected> owned(found);
    deliver(receive, from, owned->envelope, owned->data.get(), owned->arrived);
    return receive;
  }
  (receive.peer != nullptr ? receive.peer->posted : posted_any_).push_back(receive);
  step(By::owner);
  return receive;
}

bool Messenger::iprobe(const Call& call, MessageStatus& status) {
  Peer* const only = begin(call);
  for (const auto& wire : fabric_.wires) wire->progress();
  const auto guard = hold();
  step(By::owner);
  if (!failure_.ok()) require_usable(call);
  const Unexpected* const found = find_unexpected(only, {call.team.agreed_id, call.tag});
  if (found == nullptr) return false;
  status = {found->envelope.source, found->envelope.tag, found->envelope.bytes};
  return true;
}

MessageStatus Messenger::probe(const Call& call) {
  Peer* const only = begin(call);
  std::optional<Waiting> waiting;
  if (is_shared()) waiting.emplace(fabric_.background, Entry::blocks);
  MessageStatus status;
  bool is_hopeless = false;
  const auto arrived = [&]() noexcept {
    const auto guard = hold();
    step(By::owner);
    const Unexpected* const found = find_unexpected(only, {call.team.agreed_id, call.tag});
    if (found != nullptr) status = {found->envelope.source, found->envelope.tag, found->envelope.bytes};
    is_hopeless = found == nullptr && failure_.ok() && is_stuck(only, call.team);
    return found != nullptr || is_hopeless || !failure_.ok();
  };
  const int world = only != nullptr ? only->world : -1;
  const Status waited = fabric_.waiter.until({call.activity, world, 0, this, 0}, arrived, fabric_.timeout);
  if (!waited.ok()) throw_error(waited, call.name, world, 0);
  require_usable(call);
  if (is_hopeless) throw_stuck(call);
  return status;
}

// ---- records

void Messenger::find_new_senders() noexcept {
  if (senders_.size() == peers_.size()) return;
  for (int rank = 0; rank < fabric_.size; ++rank) {
    std::byte* const announced = area_ + layout_.announcement(rank);
    // Acquire: pairs with put_word(). The stores below don't race: only this rank clears the word.
    if (word(announced).load(std::memory_order_acquire) == 0) [[likely]]
      continue;
    word(announced).store(0, std::memory_order_relaxed);
    try {
      senders_.push_back(&peer_of(rank));
    } catch (const std::bad_alloc&) {
      return fail_all(Status::failure(Code::out_of_memory, "no memory for a sender", rank));
    }
  }
}

int Messenger::receive_from(Peer& peer) noexcept {
  int records = 0;
  for (; records < records_per_step && failure_.ok(); ++records) {
    const Header* const record = peer.inbox.peek();
    if (record == nullptr) break;
    const std::size_t bytes = record_bytes(record->payload);
    switch (kind_of(record->stamp)) {
      case Kind::wrap: break;  // peek() skips it
      case Kind::eager:
      case Kind::rendezvous: take_message(peer, *record); break;
      case Kind::piece: take_piece(peer, *record); break;
      case Kind::finished:
      case Kind::grant: {
        std::uint64_t words[4];
        std::memcpy(words, record + 1, sizeof words);
        if (kind_of(record->stamp) == Kind::grant) {
          take_grant(peer, *record, words);
        } else if (Operation* const send = find(words[0])) {
          if (send->stage == Stage::sending) peer.waiting.remove(*send);
          finish(*send, {});
        }
        break;
      }
    }
    peer.inbox.consume(bytes);
    count_moves();
    if (peer.inbox.unreleased() >= peer.inbox.bytes() / 4) return_credit(peer);
  }
  return records;
}

Operation* Messenger::match_posted(Peer& peer, const Envelope& message) noexcept {
  const auto fits = [&](const Operation& receive) noexcept {
    return Wanted{receive.team, receive.tag}.matches(message);
  };
  Operation* const exact = peer.posted.find(fits);
  Operation* const any = posted_any_.find(fits);
  if (exact == nullptr && any == nullptr) return nullptr;
  if (any == nullptr || (exact != nullptr && exact->order < any->order)) {
    peer.posted.remove(*exact);
    return exact;
  }
  posted_any_.remove(*any);
  return any;
}

/// The first message that matches; from any source: the first that has left its ring.
Unexpected* Messenger::find_unexpected(Peer* only, const Wanted& wanted) noexcept {
  const auto fits = [&](const Unexpected& each) noexcept { return wanted.matches(each.envelope); };
  if (only != nullptr) return only->unexpected.find(fits);
  if (unexpected_ == 0) return nullptr;
  Unexpected* first = nullptr;
  for (Peer* const sender : senders_)
    if (Unexpected* const found = sender->unexpected.find(fits); found && (!first || found->order < first->order))
      first = found;
  return first;
}

void Messenger::take_message(Peer& peer, const Header& record) noexcept {
  Envelope message{
      record.team, record.source, record.tag, peer.world, record.bytes, kind_of(record.stamp) == Kind::eager, {}};
  const std::byte* const payload = payload_of(record);
  if (!message.is_eager) std::memcpy(&message.remote, payload, sizeof message.remote);
  const std::uint64_t here = message.is_eager ? message.bytes : 0;
  if (Operation* const receive = match_posted(peer, message)) return deliver(*receive, peer, message, payload, here);
  try {
    auto kept = std::make_unique<Unexpected>();
    kept->envelope = message;
    kept->order = ++orders_;
    kept->arrived = here;
    if (const std::uint64_t room = message.is_eager ? message.bytes : message.remote.early; room > 0)
      kept->data.reset(new std::byte[room]);
    if (here > 0) std::memcpy(kept->data.get(), payload, here);
    peer.unexpected.push_back(*kept.release());
    ++unexpected_;
  } catch (const std::bad_alloc&) {
    fail_all(Status::failure(Code::out_of_memory, "no memory for an unexpected message", peer.world));
  }
}

/// The pieces of one message arrive in order, those of several messages of a sender in any order.
void Messenger::take_piece(Peer& peer, const Header& record) noexcept {
  const std::byte* const bytes = payload_of(record);
  const auto is_of = [&](const Remote& remote) noexcept { return remote.request == record.bytes; };
  if (Operation* const receive = peer.arriving.find([&](const Operation& each) { return is_of(each.remote); })) {
    std::memcpy(receive->data + receive->moved, bytes, record.payload);
    receive->moved += record.payload;
    if (receive->moved < receive->total) return;
    peer.arriving.remove(*receive);
    finish(*receive, {});
  } else if (Unexpected* const kept =
                 peer.unexpected.find([&](const Unexpected& each) { return is_of(each.envelope.remote); })) {
    std::memcpy(kept->data.get() + kept->arrived, bytes, record.payload);
    kept->arrived += record.payload;
  }  // else the message's receive has failed
}

void Messenger::note_matched(Peer& peer, std::uint64_t bytes) noexcept {
  peer.matched += bytes + message_cost;
  const std::uint64_t quarter = peer.inbox.bytes() / 4;
  if (peer.inbox.unreleased() >= quarter || peer.matched - peer.returned_matched >= quarter) [[unlikely]]
    return_credit(peer);
}

/// Tells the sender how much it may send.
void Messenger::return_credit(Peer& peer) noexcept {
  const std::uint64_t line = layout_.line(fabric_.rank);
  if (peer.area != nullptr) {
    // Relaxed: the next store publishes it, and an old value does no harm.
    word(peer.area + line + offsetof(PairLine, matched)).store(peer.matched, std::memory_order_relaxed);
    // Release: pairs with write_record(). This rank's reads of the consumed records come before.
    word(peer.area + line + offsetof(PairLine, consumed)).store(peer.inbox.release(), std::memory_order_release);
    wake(peer);
  } else {
    if (peer.credit_put != transport::done) {  // its source is in use
      const Status status = fabric_.tickets.test(peer.wire, peer.credit_put);
      if (status.code == Code::in_progress) return;
      peer.credit_put = transport::done;
      if (!status.ok()) return fail_all(status);
      if (peer.inbox.unreleased() == 0 && peer.returned_matched == peer.matched) return;
    }
    peer.credit = peer.matched;
    const Status status =
        peer.channel->put_signal(offset_ + line + offsetof(PairLine, matched), &peer.credit, sizeof peer.credit,
                                 offset_ + line + offsetof(PairLine, consumed), peer.inbox.release(), peer.credit_put);
    if (!status.ok()) return fail_all(status);
    if (peer.credit_put != transport::done) mark_busy(peer);
  }
  peer.returned_matched = peer.matched;
}

Status Messenger::revocation(const Peer& peer) const noexcept {
  std::byte* const line = area_ + layout_.line(peer.world);
  // Acquire fence: the read of the sender's buffer comes before this load. If it saw bytes of after the sender's
  // timeout, this load sees the sender's word: see cancel().
  std::atomic_thread_fence(std::memory_order_acquire);
  return Revocation::status_of(word(line + offsetof(PairLine, revoked)).load(std::memory_order_acquire), peer.world);
}

/// Copies the bytes of a rendezvous from the sender's memory. False if this rank can't read it.
bool Messenger::copy_from_sender(const Peer& peer, const Envelope& message, std::byte* to) noexcept {
  const Remote& remote = message.remote;
  if (peer.world == fabric_.rank) {
    if (const Operation* const send = find(remote.request)) std::memmove(to, send->data, message.bytes);
    return true;  // otherwise the send was given up: revocation()
  }
  // The progress thread doesn't look for windows: only the owner changes their list, without a lock.
  if (remote.window == 0 || !by_owner_) return false;
  const rma::WindowCore* const window = fabric_.windows.find(remote.window - 1);
  if (window == nullptr) return false;
  for (const rma::WindowPeer& part : window->peers()) {
    if (part.world != peer.world || part.direct == nullptr || part.on_device) continue;
    std::memcpy(to, part.direct + remote.offset, message.bytes);
    return true;
  }
  return false;
}

/// The receive has left the list of posted receives, the message the list of unexpected ones. `data`: the first
/// `arrived` bytes.
void Messenger::deliver(Operation& receive, Peer& peer, const Envelope& message, const std::byte* data,
                        std::uint64_t arrived) noexcept {
  receive.got = {message.source, message.tag, static_cast<std::size_t>(message.bytes)};
  receive.got_from = peer.world;
  const bool is_truncated = message.bytes > receive.bytes;
  if (!is_truncated && arrived > 0) std::memcpy(receive.data, data, arrived);
  if (message.is_eager || message.remote.early > 0)
    note_matched(peer, message.is_eager ? message.bytes : message.remote.early);

  Status outcome;
  if (is_truncated) {
    outcome = Status::failure(Code::mismatch, "the message is longer than the buffer", peer.world);
  } else if (arrived < message.bytes) {
    if (message.remote.early > 0 || !copy_from_sender(peer, message, receive.data))
      return receive_pieces(receive, peer, message, arrived);
    if (const Status status = revocation(peer); !status.ok()) [[unlikely]]
      return finish(receive, status);
  }
  finish(receive, outcome);
  // A send whose bytes all were early has ended.
  if (!message.is_eager && (message.bytes == 0 || message.remote.early < message.bytes))
    answer(peer, {Kind::finished, 0, {message.remote.request, 0, 0, 0}});
}

void Messenger::receive_pieces(Operation& receive, Peer& peer, const Envelope& message,
                               std::uint64_t arrived) noexcept {
  receive.peer = &peer;
  receive.remote = message.remote;
  receive.total = message.bytes;
  if (peer.area == nullptr) {
    receive.stage = Stage::granting;
    wanting_slots_.push_back(receive);
    return give_slots();
  }
  receive.stage = Stage::arriving;
  receive.moved = arrived;
  peer.arriving.push_back(receive);
  if (message.remote.early < message.bytes) answer(peer, {Kind::grant, 0, {message.remote.request, 0, 0, 0}});
}

/// Grants free slots to the receives in their order. One receive may have all slots.
void Messenger::give_slots() noexcept {
  for (int number = 0; number < Layout::slots && !wanting_slots_.is_empty() && failure_.ok(); ++number) {
    Slot& slot = slots_[static_cast<std::size_t>(number)];
    if (slot.operation != nullptr) continue;
    Operation& receive = *wanting_slots_.front();
    Peer& peer = *receive.peer;
    slot = {
        &receive,       receive.granted, std::min<std::uint64_t>(Layout::slot_bytes, receive.total - receive.granted),
        ++slot_stamps_, false,           {}};
    ++slots_in_use_;
    receive.granted += slot.bytes;
    if (receive.granted == receive.total) wanting_slots_.pop_front();
    slot.direct.offset = offset_ + layout_.slot(number);
    slot.direct.bytes = slot.bytes;
    slot.direct.to = receive.data + slot.at;
    slot.is_direct = rma::receive_into(window_, slot.direct);  // a wire may receive into the buffer
    answer(
        peer,
        {Kind::grant, slot.bytes, {receive.remote.request, slot.at, static_cast<std::uint64_t>(number), slot.stamp}});
  }
}

int Messenger::receive_slots() noexcept {
  int received = 0;
  for (int number = 0; number < Layout::slots; ++number) {
    Slot& slot = slots_[static_cast<std::size_t>(number)];
    if (slot.operation == nullptr) continue;
    // Acquire: pairs with the wire's put_signal; the piece is visible.
    if (word(area_ + layout_.slot_signal(number)).load(std::memory_order_acquire) != slot.stamp) continue;
    Operation& receive = *slot.operation;
    const std::byte* const piece = area_ + layout_.slot(number);
    std::uint64_t at = 0;
    const auto copy_up_to = [&](std::uint64_t end) noexcept {
      if (end > at && receive.data != nullptr) std::memcpy(receive.data + slot.at + at, piece + at, end - at);
    };
    if (slot.is_direct) {
      rma::end_receive_into(window_, slot.direct);
      const auto parts = std::span(slot.direct.parts).first(slot.direct.count);
      if (!parts.empty()) fabric_.direct_receives.fetch_add(1, std::memory_order_relaxed);  // orders no data
      std::ranges::sort(parts, {}, &rma::DirectReceive::Part::begin);
      for (const rma::DirectReceive::Part& part : parts) {
        copy_up_to(part.begin);
        at = std::max(at, part.end);
      }
    }
    copy_up_to(slot.bytes);
    receive.moved += slot.bytes;
    slot.operation = nullptr;
    slot.is_direct = false;
    --slots_in_use_;
    ++received;
    count_moves();
    if (receive.moved == receive.total) finish(receive, {});
  }
  if (received > 0) give_slots();
  return received;
}

}  // namespace hmc::p2p
