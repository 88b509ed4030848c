// The operations, waits and failures of Messenger. Sends are in sends.cpp, receives in receives.cpp.
#include "runtime/p2p/messenger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "runtime/base/interrupt.hpp"

namespace hmc::p2p {

using base::Status;

namespace {

/// A rank that is in Runtime::close for this time sends nothing more. Its last messages may still be on the way.
constexpr std::int64_t closing_limit_ns = 1'000'000'000;
/// After this time without a record, and without a piece of a message, a wait is for the peer's call.
constexpr std::int64_t still_ns = 10'000'000'000;

std::string text_of(std::size_t bytes, int tag, int world) {
  return fmt::format("{} bytes with tag {} from rank {}", bytes, tag, world);
}

/// The first messages of a list, for a text.
class MessageList {
 public:
  void add(const Envelope& message) {
    constexpr std::size_t most = 8;
    if (++count_ > most) return;
    text_ += (text_.empty() ? "" : ", ") + text_of(message.bytes, message.tag, message.world);
    shown_ = count_;
  }
  std::size_t count() const noexcept { return count_; }
  std::string text() const { return count_ > shown_ ? fmt::format("{} and {} more", text_, count_ - shown_) : text_; }

 private:
  std::string text_;
  std::size_t count_ = 0, shown_ = 0;
};

}  // namespace

Messenger::Messenger(rma::TeamCore& world, const std::shared_ptr<rma::WindowCore>& window, std::uint64_t offset,
                     const Layout& layout)
    : StartedOperations(world.fabric().waiter, world.fabric().tickets, world.fabric().background),
      fabric_(world.fabric()),
      window_(*window),
      shared_window_(window),
      offset_(offset),
      layout_(layout),
      area_(window->data() + offset),
      payload_max_(payload_max(std::min<std::size_t>(layout.ring_bytes(), 64 << 10))),  // pieces stay in the L1 cache
      unmatched_max_(std::min<std::uint64_t>(4 * layout.ring_bytes(), 256 << 10)) {
  const auto ranks = static_cast<std::size_t>(fabric_.size);
  peers_.resize(ranks);
  senders_.reserve(ranks);
  busy_.reserve(ranks);
  enlist();
  fabric_.messages = this;
}

Messenger::~Messenger() {
  {
    const auto guard = hold();
    end();
    retire();
  }
  for (const auto& peer : peers_)
    while (peer != nullptr && !peer->unexpected.is_empty()) delete peer->unexpected.pop_front();
  if (fabric_.messages == this) fabric_.messages = nullptr;
}

void Messenger::close() {
  const auto is_needed = [this]() noexcept {
    const auto guard = hold();
    step(By::owner);
    return !busy_.empty() && failure_.ok();
  };
  if (is_needed()) {
    const Waiting waiting(fabric_.background, Entry::blocks);
    // A failure isn't reported here: the barrier of the close reports it.
    (void)fabric_.waiter.until(
        {base::Activity::closing}, [&]() noexcept { return !is_needed(); }, fabric_.timeout);
  }
  is_closed_ = failure_.ok() && complete_puts().ok();
  const auto guard = hold();
  end();
}

/// Waits until the messages of this rank are in the memory of their receivers, so that these can report them.
Status Messenger::complete_puts() noexcept {
  for (std::size_t wire = 0; wire < fabric_.wires.size(); ++wire) {
    const auto is_used = [&](const std::unique_ptr<Peer>& peer) noexcept {
      return peer != nullptr && peer->area == nullptr && peer->wire == static_cast<int>(wire) && peer->announced;
    };
    if (std::ranges::none_of(peers_, is_used)) continue;
    transport::Ticket ticket = transport::done;
    Status status = fabric_.wires[wire]->flush(-1, ticket);
    if (status.ok())
      status = fabric_.tickets.finish(static_cast<int>(wire), ticket, {base::Activity::closing}, fabric_.timeout);
    if (!status.ok()) return status;
  }
  return {};
}

/// All ranks have entered the close, so their messages have arrived. Only reads: a sender needs no credit any more.
void Messenger::report_unreceived() noexcept {
  if (!is_closed_ || !fabric_.waiter.page().aborted().ok()) return;
  try {
    MessageList left;
    for (int rank = 0; rank < fabric_.size; ++rank) {
      if (peers_[static_cast<std::size_t>(rank)] == nullptr) {
        // Acquire: pairs with put_word().
        if (word(area_ + layout_.announcement(rank)).load(std::memory_order_acquire) == 0) continue;
        peer_of(rank);
      }
      Peer& peer = *peers_[static_cast<std::size_t>(rank)];
      for (const Unexpected* each = peer.unexpected.front(); each != nullptr; each = each->next)
        left.add(each->envelope);
      while (const Header* const record = peer.inbox.peek()) {
        const Kind kind = kind_of(record->stamp);
        if (kind == Kind::eager || kind == Kind::rendezvous)
          left.add({record->team, record->source, record->tag, rank, record->bytes, kind == Kind::eager, {}});
        peer.inbox.consume(record_bytes(record->payload));
      }
    }
    if (left.count() > 0)
      fabric_.log.warn("Runtime::close: rank {} hasn't received {} message{}: {}", fabric_.rank, left.count(),
                       left.count() == 1 ? "" : "s", left.text());
  } catch (const std::exception&) {
    // no memory for a warning
  }
}

/// On return no operation accesses the caller's buffers: their callers get this error, and may free them.
void Messenger::fail_all(const Status& status) noexcept {
  if (!failure_.ok()) return;
  failure_ = status;
  for (Slot& slot : slots_)
    if (slot.operation != nullptr && slot.is_direct) {
      rma::end_receive_into(window_, slot.direct);
      slot.is_direct = false;
    }
  for (Operation* const send : putting_)
    for (transport::Ticket& piece : send->pieces)
      if (piece != transport::done) fabric_.tickets.abandon(send->peer->wire, std::exchange(piece, transport::done));
  putting_.clear();
  for (Peer* const peer : busy_) peer->busy = false;
  busy_.clear();
  in_flight_ = 0;
  count_moves();
}

/// Also ends the puts of records and credits in flight: their sources are freed.
void Messenger::end() noexcept {
  fail_all(Status::failure(Code::closed, "the runtime is closed"));
  slots_ = {};
  slots_in_use_ = 0;
  // A failure since fail_all() may have left some.
  putting_.clear();
  busy_.clear();
  in_flight_ = 0;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    for (const transport::Ticket put : peer->puts) fabric_.tickets.abandon(peer->wire, put);
    if (peer->credit_put != transport::done) fabric_.tickets.abandon(peer->wire, peer->credit_put);
    peer->puts.clear();
    peer->credit_put = transport::done;
    peer->busy = false;
  }
  unshare();
}

// ---- peers

Peer& Messenger::peer_of(int world) {
  std::unique_ptr<Peer>& place = peers_[static_cast<std::size_t>(world)];
  if (place != nullptr) [[likely]]
    return *place;
  auto peer = std::make_unique<Peer>();
  const rma::WindowPeer& to = window_.peers()[static_cast<std::size_t>(world)];
  peer->world = world;
  peer->channel = to.channel;
  peer->wire = to.wire;
  if (to.direct != nullptr) {
    peer->area = to.direct + offset_;
    peer->ring = RingWriter(peer->area + layout_.ring(fabric_.rank), layout_.ring_bytes());
  } else {
    peer->copy_of_ring = std::make_unique<std::byte[]>(layout_.ring_bytes());
    peer->ring = RingWriter(peer->copy_of_ring.get(), layout_.ring_bytes());
  }
  peer->inbox = RingReader(area_ + layout_.ring(world), layout_.ring_bytes());
  peer->controls.reserve(16);
  peer->puts.reserve(layout_.ring_bytes() / Layout::line_bytes + 16);  // the ring's records, and single words
  place = std::move(peer);
  return *place;
}

void Messenger::mark_busy(Peer& peer) noexcept {
  if (peer.busy) return;
  peer.busy = true;
  busy_.push_back(&peer);  // reserved
}

int Messenger::step(By who) noexcept {
  if (!failure_.ok()) [[unlikely]]
    return 0;
  if (has_job_failed()) [[unlikely]]
    return 1;
  by_owner_ = who == By::owner;
  const std::uint64_t before = moves();
  find_new_senders();
  for (std::size_t i = 0; i < senders_.size(); ++i) receive_from(*senders_[i]);
  if (slots_in_use_ > 0) receive_slots();
  if (!putting_.empty()) complete_pieces();
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    Peer& peer = *busy_[i];
    push(peer);
    if (!failure_.ok()) break;
    if (!peer.controls.empty() || !peer.waiting.is_empty() || !peer.puts.empty() || peer.credit_put != transport::done)
      continue;
    peer.busy = false;
    busy_[i--] = busy_.back();
    busy_.pop_back();
  }
  return static_cast<int>(moves() - before);
}

// ---- operations

/// Returns the call's peer; null: any source. Holds the lock, because the progress thread adds peers and fails
/// operations.
Peer* Messenger::begin(const Call& call) {
  const auto guard = hold();
  require_usable(call);
  return call.peer >= 0 ? &peer_of(call.team.world_rank(call.peer)) : nullptr;
}

/// An operation of the call, which has copied a buffer that the host can't access.
Operation& Messenger::open(const Call& call, bool is_send) {
  share();
  Operation& operation = take();
  operation.is_send = is_send;
  operation.is_held = true;
  operation.data = static_cast<std::byte*>(call.data);
  operation.bytes = call.bytes;
  operation.team = call.team.agreed_id;
  operation.tag = call.tag;
  operation.peer = nullptr;
  operation.outcome = {};
  operation.got = {};
  operation.got_from = -1;
  operation.status = nullptr;
  operation.copies.reset();
  operation.total = operation.granted = operation.moved = 0;
  operation.pieces = {};
  try {
    putting_.reserve(slots());
    if (call.peer >= 0) operation.peer = &peer_of(call.team.world_rank(call.peer));
    using device::HostCopies;
    using device::Output;
    if (is_send && device::need_host_copies(call.data, nullptr)) [[unlikely]] {
      operation.copies =
          std::make_unique<HostCopies>(fabric_, call.name, call.data, call.bytes, nullptr, 0, Output::unchanged);
      rma::require(fabric_, operation.copies->take(), {call.name, operation.peer->world, 0, call.bytes, true});
      operation.data = static_cast<std::byte*>(const_cast<void*>(operation.copies->in()));
    } else if (!is_send && device::need_host_copies(nullptr, call.data)) [[unlikely]] {
      operation.copies =
          std::make_unique<HostCopies>(fabric_, call.name, nullptr, 0, call.data, call.bytes, Output::parts);
      rma::require(fabric_, operation.copies->take(), {call.name, -1, 0, call.bytes, true});
      operation.data = static_cast<std::byte*>(operation.copies->out());
    }
  } catch (...) {
    operation.copies.reset();
    give_back(operation);
    unshare_if_idle();
    throw;
  }
  return operation;
}

void Messenger::finish(Operation& operation, const Status& status) noexcept {
  operation.outcome = status;
  if (!operation.is_send && status.ok()) {
    if (operation.copies != nullptr) operation.outcome = operation.copies->finish();
  }
  if (operation.status != nullptr && (status.ok() || status.code == Code::mismatch)) *operation.status = operation.got;
  operation.copies.reset();
  operation.stage = Stage::over;
  --in_flight_;
  count_moves();
  if (operation.outcome.ok() && !operation.is_held) give_back(operation);
}

void Messenger::release(Operation& operation) noexcept {
  operation.outcome = {};  // a copy of its request may be tested again
  give_back(operation);
}

/// Called when the caller gives up: on return its buffer isn't accessed any more, or the pair has failed.
void Messenger::cancel(Operation& operation) noexcept {
  switch (operation.stage) {
    case Stage::over: return;
    case Stage::posted: (operation.peer != nullptr ? operation.peer->posted : posted_any_).remove(operation); break;
    case Stage::queued: operation.peer->waiting.remove(operation); break;
    case Stage::sending: operation.peer->waiting.remove(operation); [[fallthrough]];
    case Stage::published: {
      Peer& peer = *operation.peer;
      if (peer.world == fabric_.rank) {  // this rank is the receiver, and copies under the same lock
        const auto is_its = [&](const Unexpected& each) noexcept {
          return !each.envelope.is_eager && each.envelope.remote.request == operation.ticket;
        };
        if (Unexpected* const kept = peer.unexpected.find(is_its)) {
          peer.unexpected.remove(*kept);
          --unexpected_;
          delete kept;
          break;
        }
      }
      // The receiver may read the buffer at any time. It checks the word after each read, and drops what it has read.
      peer.revoked = true;
      const Status aborted = fabric_.waiter.page().aborted();
      put_word(peer, layout_.line(fabric_.rank) + offsetof(PairLine, revoked),
               Revocation::word_of(aborted.ok() ? failure_ : aborted));
      base::full_fence();  // the caller's next stores to the buffer come after the word
      for (transport::Ticket& piece : operation.pieces)
        if (piece != transport::done) fabric_.tickets.abandon(peer.wire, std::exchange(piece, transport::done));
      std::erase(putting_, &operation);
      break;
    }
    case Stage::arriving: operation.peer->arriving.remove(operation); break;  // its further pieces are dropped
    case Stage::granting:
      for (Slot& slot : slots_) {
        if (slot.operation != &operation) continue;
        // The sender may still write to the slot, so the slot isn't used again.
        if (slot.is_direct) rma::end_receive_into(window_, slot.direct);
        slot.is_direct = false;
      }
      wanting_slots_.remove(operation);
      operation.total = operation.granted;
      if (operation.moved == operation.total) break;
      operation.copies.reset();
      operation.status = nullptr;
      operation.data = nullptr;   // the pieces on the way are dropped
      operation.is_held = false;  // released after the last of them
      return;
  }
  operation.copies.reset();
  operation.stage = Stage::over;
  if (failure_.ok()) --in_flight_;
}

// ---- waits and tests

/// True if nothing can end a wait for messages of `only` on `team`: all messages come from this rank, no message or
/// answer of it is on the way, and only the waiting thread may make calls. Requires the lock, after a step.
bool Messenger::is_stuck(const Peer* only, const rma::TeamCore& team) const noexcept {
  if (only != nullptr ? only->world != fabric_.rank : team.size() > 1) return false;
  if (base::wait_yield() != nullptr) return false;
  const auto& self = peers_[static_cast<std::size_t>(fabric_.rank)];
  if (self == nullptr) return true;         // it has sent itself nothing
  if (self->area == nullptr) return false;  // by a wire: its messages may be on the way, and their puts complete
  return self->waiting.is_empty() && self->controls.empty() && self->inbox.peek() == nullptr;
}

void Messenger::throw_stuck(const Call& call) {
  failed_ = {};
  const std::string tag = call.tag == any_tag ? "any tag" : fmt::format("tag {}", call.tag);
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = call.name;
  detail.rank = fabric_.rank;
  detail.peer = fabric_.rank;
  detail.message =
      call.activity == base::Activity::send
          ? fmt::format("rank {} sends {} bytes with {} to itself and has posted no receive for them", fabric_.rank,
                        call.bytes, tag)
          : fmt::format("rank {} waits for a message with {} of itself and has sent none", fabric_.rank, tag);
  if (const std::string others = text_of_unmatched(); !others.empty()) detail.message += "; " + others;
  detail.hint = "one thread at a time calls a Runtime: start the send first, by isend";
  throw Error(std::move(detail));
}

/// Names the messages that have arrived and that no receive has matched. Empty: none.
std::string Messenger::text_of_unmatched() {
  const auto guard = hold();
  step(By::owner);
  MessageList list;
  for (const Peer* const sender : senders_)
    for (const Unexpected* each = sender->unexpected.front(); each != nullptr; each = each->next)
      list.add(each->envelope);
  return list.count() > 0
             ? fmt::format("rank {} has messages that no receive has matched: {}", fabric_.rank, list.text())
             : std::string();
}

MessageStatus Messenger::wait_for(const Call& call, Operation& operation) {
  Status outcome;
  bool is_hopeless = false;
  const auto over = [&]() noexcept {
    const auto guard = hold();
    step(By::owner);
    outcome = operation.is_under_way() ? failure_ : operation.outcome;
    is_hopeless = operation.is_under_way() && failure_.ok() && is_stuck(operation.peer, call.team);
    // A send returns at the local completion of its puts, as Window::put does.
    const bool is_over = !operation.is_under_way() && (!operation.is_send || operation.peer->puts.empty());
    return is_over || is_hopeless || !failure_.ok();
  };
  const auto moved = [&]() noexcept {
    const auto guard = hold();
    return operation.moved;
  };
  const int world = operation.peer != nullptr ? operation.peer->world : -1;
  const base::WaitNote note{call.activity, world, 0, this, call.bytes};
  Status waited;
  for (;;) {  // a message in pieces may take longer than the timeout
    const std::uint64_t before = moved();
    waited = fabric_.waiter.until(note, over, fabric_.timeout);
    if (waited.code != Code::timeout || moved() == before || base::is_interrupted()) break;
  }
  const Status status = waited.ok() ? outcome : waited;
  {
    const auto guard = hold();
    const MessageStatus got = operation.got;
    failed_ = {waited.ok() && outcome.code == Code::mismatch, operation.bytes, got, operation.got_from};
    if (status.code == Code::peer_failed || status.code == Code::aborted) fail_all(status);
    cancel(operation);
    if (!operation.is_under_way()) release(operation);
    unshare_if_idle();
    if (status.ok() && !is_hopeless) return got;
  }
  if (waited.ok() && is_hopeless) throw_stuck(call);
  throw_error(status, call.name, world, call.bytes);
}

Status Messenger::outcome_of(Operation& operation, std::uint64_t ticket) noexcept {
  failed_ = {};
  if (operation.ticket != ticket) return {};
  const Status outcome = operation.outcome;
  if (outcome.ok()) return outcome;
  failed_ = {outcome.code == Code::mismatch, operation.bytes, operation.got, operation.got_from};
  release(operation);
  return outcome;
}

void Messenger::give_up(Operation& operation) noexcept {
  if (operation.stage != Stage::posted) return;
  cancel(operation);
  release(operation);
  unshare_if_idle();
}

Status Messenger::abort_dropped(const Operation& operation, const char* call) noexcept {
  try {
    const std::string peer = operation.peer != nullptr ? fmt::format("rank {}", operation.peer->world) : "any rank";
    const std::string tag = operation.tag != any_tag ? fmt::format("tag {}", operation.tag) : "any tag";
    return rma::abort_dropped(
        fabric_, fmt::format("{} {} {} with {} and {}{} bytes", call, operation.is_send ? "to" : "from", peer, tag,
                             operation.is_send ? "" : "up to ", operation.bytes));
  } catch (const std::exception&) {  // no memory for the text
    return rma::abort_dropped(fabric_, call);
  }
}

/// In a long wait for note.peer; -1: for any rank.
Status Messenger::look(const base::WaitNote& note, std::int64_t now) noexcept {
  if (note.activity != base::Activity::send) {
    const auto guard = hold();
    for (Peer* const sender : senders_)  // no further pieces will arrive
      while (!sender->arriving.is_empty() && is_revoked(*sender))
        finish(*sender->arriving.pop_front(), revocation(*sender));
    if (note.peer >= 0)
      if (const auto& peer = peers_[static_cast<std::size_t>(note.peer)]; peer != nullptr)
        if (const Status status = revocation(*peer); !status.ok()) return status;
  }
  // A message that arrives in pieces isn't a wait for the peer's call: see the store's search for deadlocks.
  if (const std::uint64_t now_moved = moves(); now_moved != std::exchange(moves_seen_, now_moved)) moved_at_ = now;
  const bool moves_on = moved_at_ != 0 && now - moved_at_ < still_ns;
  fabric_.waiter.page()
      .activity(fabric_.waiter.local_index())
      .peer.store(moves_on ? -1 : note.peer,
                  std::memory_order_relaxed);  // a hint
  int closing = note.peer;
  if (note.peer >= 0) {
    if (note.peer == fabric_.rank || !fabric_.tickets.is_closing(note.peer)) closing = -1;
  } else {
    for (int rank = 0; rank < fabric_.size; ++rank) {
      if (rank == fabric_.rank) continue;
      if (!fabric_.tickets.is_closing(rank)) {
        closing = -1;
        break;
      }
      closing = rank;
    }
  }
  if (closing < 0 || closing != closing_peer_) closing_since_ = now;
  closing_peer_ = closing;
  if (closing < 0 || now - closing_since_ < closing_limit_ns) return {};
  return Status::failure(Code::mismatch, "the awaited rank has called Runtime::close", closing);
}

void Messenger::throw_failure(const Status& status, const char* operation) {
  throw_error(status, operation, -1, failed_.capacity);
}

void Messenger::throw_error(const Status& status, const char* name, int world, std::size_t bytes) {
  threw_truncation_ = failed_.is_truncation;
  if (failed_.is_truncation) {
    ErrorDetail detail;
    detail.code = status.code;
    detail.operation = name;
    detail.rank = fabric_.rank;
    detail.peer = failed_.world;
    detail.message = fmt::format("truncated: rank {} sent {} bytes with tag {}, and rank {} receives into {} bytes",
                                 failed_.world, failed_.got.bytes, failed_.got.tag, fabric_.rank, failed_.capacity);
    failed_ = {};
    throw Error(std::move(detail));
  }
  failed_ = {};
  if (status.code == Code::closed && status.peer < 0) rma::throw_closed_runtime(fabric_, name);
  // A rank that has reported a mismatch in a collective may have left: that is the cause.
  const int cause = status.peer >= 0 ? status.peer : world;
  if (progress::TicketSource* const other = fabric_.tickets.unheard_mismatch(cause); other != nullptr && !status.ok())
    other->throw_failure(status, name);
  const auto is_after_timeout = [&] {  // of an earlier send to or from the rank: no death is the cause
    const auto guard = hold();
    const Peer* const peer = cause >= 0 ? peers_[static_cast<std::size_t>(cause)].get() : nullptr;
    return peer != nullptr && (peer->revoked || is_revoked(*peer));
  };
  if (status.code == Code::error && fabric_.waiter.page().aborted().ok() && is_after_timeout())
    rma::throw_known(fabric_, status, {name, world, 0, bytes, true});
  std::string unmatched;
  if (status.code == Code::mismatch || status.code == Code::timeout) unmatched = text_of_unmatched();
  rma::throw_status(fabric_, status, {name, world, 0, bytes, true, unmatched});
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

/// A failure is reported by the request.
Request Messenger::leave_in_flight(Operation& operation, const Call& call) {
  const int world = operation.peer != nullptr ? operation.peer->world : -1;
  operation.is_held = false;
  const bool is_over = !operation.is_under_way() && operation.outcome.ok();
  if (is_over) {
    release(operation);
    unshare_if_idle();
  }
  return Request::from_raw(
      {shared_window_.lock().get(), is_over ? 0 : operation.ticket, call.name, source_index(), world});
}

void Messenger::require_usable(const Call& call) const {
  if (!failure_.ok()) [[unlikely]] {
    if (failure_.code == Code::closed) rma::throw_closed_runtime(fabric_, call.name);
    rma::throw_status(fabric_, failure_, {call.name, -1, 0, call.bytes, true});
  }
  if (const Status aborted = fabric_.waiter.page().aborted(); !aborted.ok()) [[unlikely]]
    rma::throw_status(fabric_, aborted, {call.name, -1, 0, call.bytes, true});
}

}  // namespace hmc::p2p
