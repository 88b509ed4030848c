// The calls of Messenger, with the fast paths of eager messages.
#include <cstring>
#include <optional>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/p2p/messenger.hpp"

namespace hmc::p2p {

using base::Status;

/// Returns the call's peer; null: any source. Holds the lock, because the progress thread adds peers and fails
/// operations.
Peer* Messenger::begin(const Call& call) {
  const auto guard = hold();
  require_usable(call);
  return call.peer >= 0 ? &peer_of(call.team.world_rank(call.peer)) : nullptr;
}

void Messenger::send(const Call& call) {
  Peer& peer = *begin(call);
  if (!memory::devices_present() && peer.area != nullptr) [[likely]] {
    const auto guard = hold();
    if (try_eager(peer, call.team.agreed_id, call.team.rank(), call.tag, call.data, call.bytes)) [[likely]]
      return wake(peer);
  }
  if (peer.revoked)
    throw_error(Status::failure(Code::error, "an earlier send to this rank has timed out", peer.world), call.name,
                peer.world, call.bytes);
  const Waiting waiting(fabric_.background, Entry::blocks);
  Operation* operation = nullptr;
  {
    const auto guard = hold_always();
    operation = &start_send(call);
  }
  wait_for(call, *operation);
}

Request Messenger::isend(const Call& call) {
  Peer& peer = *begin(call);
  if (!memory::devices_present() && peer.area != nullptr) [[likely]] {
    const auto guard = hold();
    if (try_eager(peer, call.team.agreed_id, call.team.rank(), call.tag, call.data, call.bytes)) [[likely]] {
      wake(peer);
      return Request::from_raw({nullptr, 0, call.name, source_index(), peer.world});
    }
  }
  if (peer.revoked)
    throw_error(Status::failure(Code::error, "an earlier send to this rank has timed out", peer.world), call.name,
                peer.world, call.bytes);
  const Visit visit(fabric_.background, true, Entry::starts);
  Operation& operation = start_send(call);
  return leave_in_flight(operation, call);
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

Request Messenger::irecv(const Call& call, MessageStatus* status) {
  begin(call);
  const Visit visit(fabric_.background, true, Entry::starts);
  Operation& operation = start_receive(call, status);
  return leave_in_flight(operation, call);
}

MessageStatus Messenger::sendrecv(const Call& out, const Call& in) {
  Request sent = isend(out);
  const std::uint64_t ticket = sent.raw().ticket;
  threw_truncation_ = false;
  try {
    const MessageStatus status = recv(in);
    sent.wait();
    return status;
  } catch (const Error&) {
    end_send(ticket, sent);
    throw;
  }
}

/// After a failure of sendrecv: on return the send doesn't use its buffer.
void Messenger::end_send(std::uint64_t ticket, Request& sent) noexcept {
  if (threw_truncation_) {  // the send isn't affected
    try {
      return sent.wait();
    } catch (const Error&) {
      // sendrecv reports the first failure
    }
  }
  const auto guard = hold_always();
  Operation* const send = find(ticket);
  if (send == nullptr) return;
  cancel(*send);
  release(*send);
  unshare_if_idle();
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

}  // namespace hmc::p2p
