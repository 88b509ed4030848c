#include "runtime/transport/am/target.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/base/fences.hpp"
#include "runtime/base/interfaces.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::transport::am {

namespace {

/// Maximum number of refused regions that are recorded. A program that exceeds it is broken anyway.
constexpr std::size_t most_refused = 256;

/// True for powers of two: log with decreasing frequency, so that a flood of messages doesn't fill the log.
bool worth_a_line(std::uint64_t count) noexcept { return (count & (count - 1)) == 0; }

}  // namespace

bool Target::admit(const Message& message) noexcept {
  // Checked first, before the message is counted as one of that rank.
  if (!peers_.has_tag(message) || message.sequence < peers_.at(static_cast<int>(message.origin)).received) {
    refuse_stranger(-1);
    return false;
  }
  AmPeer& peer = peers_.at(static_cast<int>(message.origin));
  if (peer.distrusted) return false;
  if (message.sequence != peer.received++) {
    // Fences and signals depend on this order; to continue would corrupt data silently.
    log_.error("{}: message {} from rank {} came where {} was due", peers_.traits().name, message.sequence, peer.rank,
               peer.received - 1);
    distrust(peer, "the network reordered messages");
    return false;
  }
  return true;
}

void Target::receive(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept {
  if (!admit(message)) return;
  AmPeer& peer = peers_.at(static_cast<int>(message.origin));
  try {
    if (!receive_all(message, data, bytes)) {
      log_.error("{}: message {} from rank {} isn't whole", peers_.traits().name, message.sequence, peer.rank);
      distrust(peer, "its messages aren't whole");
    }
  } catch (const std::bad_alloc&) {  // no memory for the list of answers: the requesting peer fails
    peers_.fail(peer, base::Status::failure(Code::out_of_memory, "no memory for an answer", peer.rank));
  }
}

bool Target::begin(const Message& message) noexcept {
  if (!admit(message)) return false;
  if (message.kind == MessageKind::put || has_signal(message) || message.kind == MessageKind::got) {
    base::store_fence();  // as in do_put: orders the coming stores after all earlier ones
    return true;
  }
  AmPeer& peer = peers_.at(static_cast<int>(message.origin));
  log_.error("{}: message {} from rank {} has more bytes than its kind", peers_.traits().name, message.sequence,
             peer.rank);
  distrust(peer, "its messages aren't whole");
  return false;
}

LinkUser::Place Target::place(const Message& message, std::uint64_t at) noexcept {
  std::uint64_t bytes = message.bytes - at;
  if (message.kind == MessageKind::got) {
    const Tickets::Transfer* const transfer = tickets_.find(message.ticket);
    const bool fits = transfer != nullptr && transfer->destination != nullptr && message.offset <= transfer->bytes &&
                      message.bytes <= transfer->bytes - message.offset;
    return {fits ? transfer->destination + message.offset + at : nullptr, bytes};
  }
  Regions::Registered* const region = region_of_put(message);
  if (region == nullptr) return {nullptr, bytes};
  const std::uint64_t offset = message.offset + at;
  const DirectReceive* const receive = receive_at(*region, offset, bytes);
  return {receive == nullptr ? region->base + offset : receive->to + (offset - receive->offset), bytes};
}

void Target::filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept {
  Regions::Registered* const region = message.kind == MessageKind::got ? nullptr : region_of_put(message);
  if (region == nullptr) return;
  const std::uint64_t offset = message.offset + at;
  DirectReceive* const receive = receive_at(*region, offset, bytes);
  if (receive == nullptr) return;
  const std::uint64_t begin = offset - receive->offset, end = begin + bytes;
  for (std::size_t i = 0; i < receive->count; ++i)
    if (receive->parts[i].end == begin) {
      receive->parts[i].end = end;
      return;
    }
  receive->parts[receive->count++] = {begin, end};  // receive_at has checked that there is a free entry
}

DirectReceive* Target::receive_at(Regions::Registered& region, std::uint64_t offset, std::uint64_t& bytes) noexcept {
  for (DirectReceive* const receive : region.receives) {
    if (offset + bytes <= receive->offset || offset >= receive->offset + receive->bytes) continue;
    if (offset < receive->offset) {  // starts before the direct receive
      bytes = receive->offset - offset;
      continue;
    }
    const std::uint64_t begin = offset - receive->offset;
    bytes = std::min(bytes, receive->bytes - begin);
    const auto goes_on = [&](const DirectReceive::Part& part) { return part.end == begin; };
    const bool has_place =
        receive->count < receive->parts.size() || std::any_of(receive->parts.begin(), receive->parts.end(), goes_on);
    return has_place ? receive : nullptr;
  }
  return nullptr;
}

void Target::finish(const Message& message) noexcept {
  AmPeer& peer = peers_.at(static_cast<int>(message.origin));
  try {
    if (message.kind == MessageKind::got) {
      if (place(message, 0).to != nullptr) tickets_.advance(message.ticket, message.bytes);
    } else if (Regions::Registered* const region = region_of_put(message); region == nullptr) {
      refuse_put(message);
    } else if (has_signal(message)) {
      raise(*region, message);
    }
  } catch (const std::bad_alloc&) {
    peers_.fail(peer, base::Status::failure(Code::out_of_memory, "no memory for an answer", peer.rank));
  }
}

void Target::distrust(AmPeer& peer, const char* why) noexcept {
  peer.distrusted = true;
  peers_.fail(peer, base::Status::failure(Code::error, why, peer.rank));
}

bool Target::receive_all(Message message, const std::byte* data, std::uint64_t left) {
  const std::uint32_t origin = message.origin;
  for (;;) {
    if (message.bytes > left) return false;
    message.origin = origin;  // joined messages come from the same rank; their own origin field isn't trusted
    if (message.kind < MessageKind::got)
      carry_out(message, data, message.bytes);
    else
      receive_reply(message, data, message.bytes);
    data += message.bytes;
    left -= message.bytes;
    if (left == 0) return true;
    if (left < sizeof message) return false;
    std::memcpy(&message, data, sizeof message);
    data += sizeof message;
    left -= sizeof message;
  }
}

void Target::refuse_stranger(int socket) noexcept {
  if (worth_a_line(++refusals_.strangers))
    log_.warn("{}: dropped {} messages without the tag that was due{}{}", peers_.traits().name, refusals_.strangers,
              socket < 0 ? "" : ", the last from ", socket < 0 ? "" : base::peer_text(socket));
}

void Target::carry_out(const Message& message, const std::byte* data, std::uint64_t bytes) {
  switch (message.kind) {
    case MessageKind::put:
    case MessageKind::put_signal:
    case MessageKind::notice: return do_put(message, data, bytes);
    case MessageKind::atomic: return do_atomic(message);
    case MessageKind::get: return do_get(message);
    case MessageKind::flush: reply(message, MessageKind::flushed).message.first = message.first; return;
    default: return;
  }
}

/// Null unless the message's bytes and its signal lie in a registered region.
Regions::Registered* Target::region_of_put(const Message& message) noexcept {
  Regions::Registered* const region = regions_.find(key_of(message), message.offset, message.bytes);
  if (!has_signal(message)) return region;
  return message.first % 8 == 0 && regions_.find(key_of(message), message.first, 8) != nullptr ? region : nullptr;
}

void Target::raise(const Regions::Registered& region, const Message& message) noexcept {
  // A rank that loads the signal also sees the bytes of earlier messages: the thread that stored them held AmWire's
  // lock before.
  store_signal(region.base + message.first, message.second);
}

void Target::do_put(const Message& message, const std::byte* data, std::uint64_t bytes) {
  Regions::Registered* const region = region_of_put(message);
  if (region == nullptr) return refuse_put(message);
  // Messages are executed in order, so a fence needs no message. This fence orders each message's stores after those of
  // earlier messages, on every CPU.
  base::store_fence();
  std::byte* const to = region->base + message.offset;
  if (is_word(to, bytes) || region->receives.empty()) {
    store_bytes(to, data, bytes);
  } else {
    for (std::uint64_t at = 0; at < bytes;) {
      const LinkUser::Place part = place(message, at);
      std::memcpy(part.to, data + at, part.bytes);
      filled(message, at, part.bytes);
      at += part.bytes;
    }
  }
  if (has_signal(message)) raise(*region, message);
}

void Target::do_atomic(const Message& message) {
  const bool valid = (message.width == 4 || message.width == 8) && message.offset % message.width == 0 &&
                     message.op <= static_cast<std::uint8_t>(AtomicOp::fetch_xor);
  Regions::Registered* const region = valid ? regions_.find(key_of(message), message.offset, message.width) : nullptr;
  if (region == nullptr) return refuse(message);
  // This CPU executes it, so it is atomic with the atomics of this node's ranks on the same word.
  const Atomic atomic{static_cast<AtomicOp>(message.op), message.width, message.first, message.second};
  const std::uint64_t old = apply_atomic(atomic, region->base + message.offset);
  if (message.wants_result != 0) reply(message, MessageKind::result).message.first = old;
}

void Target::do_get(const Message& message) {
  Regions::Registered* const region = regions_.find(key_of(message), message.offset, message.first);
  if (region == nullptr) return refuse(message);
  Answer& answer = reply(message, MessageKind::got);
  answer.region = region;
  answer.offset = message.offset;
  answer.bytes = message.first;
}

void Target::refuse_put(const Message& message) {
  if (message.kind != MessageKind::notice) refuse(message);
}

void Target::refuse(const Message& message) {
  if (worth_a_line(++refusals_.requests))
    log_.error("{}: refused a request of rank {} at offset {}: region not registered or too short ({} such requests)",
               peers_.traits().name, message.origin, message.offset, refusals_.requests);
  Message& answer = reply(message, MessageKind::refused).message;
  answer.region = message.region;
  answer.nonce = message.nonce;
}

Target::Answer& Target::reply(const Message& to, MessageKind kind) {
  const int rank = static_cast<int>(to.origin);
  auto due = std::find_if(due_.begin(), due_.end(), [&](const Due& one) { return one.rank == rank; });
  if (due == due_.end()) {
    if (spare_.empty()) spare_.emplace_back();
    due = due_.insert(due_.end(), std::move(spare_.back()));
    spare_.pop_back();
    due->rank = rank;
  }
  Answer& answer = due->answers.emplace_back();
  answer.message.kind = kind;
  answer.message.ticket = to.ticket;
  return answer;
}

void Target::receive_reply(const Message& message, const std::byte* data, std::uint64_t bytes) {
  AmPeer& peer = peers_.at(static_cast<int>(message.origin));
  if (peer.results_due > 0 && (message.kind == MessageKind::result || message.kind == MessageKind::refused))
    --peer.results_due;
  if (message.kind == MessageKind::refused) return take_refusal(message);
  if (message.kind == MessageKind::flushed && message.first <= peer.posted)
    peer.flushed = std::max(peer.flushed, message.first);
  Tickets::Transfer* const transfer = tickets_.find(message.ticket);
  if (transfer == nullptr) return;
  switch (message.kind) {
    case MessageKind::got:
      if (transfer->destination == nullptr || message.offset > transfer->bytes ||
          bytes > transfer->bytes - message.offset)
        return;
      if (bytes > 0) std::memcpy(transfer->destination + message.offset, data, bytes);
      return tickets_.advance(message.ticket, bytes);
    case MessageKind::result:
      if (transfer->result != nullptr) std::memcpy(transfer->result, &message.first, transfer->width);
      return tickets_.advance(message.ticket, 1);
    case MessageKind::flushed:
      // The refusal of a put arrives before the answer to the flush that covers it.
      if (!std::exchange(peer.refused_puts, {}).empty())
        return tickets_.fail(
            message.ticket,
            base::Status::failure(Code::error, "a put addressed a region that the peer hasn't registered", peer.rank));
      return tickets_.advance(message.ticket, 1);
    default: return;
  }
}

void Target::take_refusal(const Message& message) {
  const int rank = static_cast<int>(message.origin);
  if (worth_a_line(++refusals_.own))
    log_.error("{}: rank {} hasn't registered a region that this rank requested ({} such refusals)",
               peers_.traits().name, rank, refusals_.own);
  tickets_.fail(message.ticket, base::Status::failure(Code::error, "the peer hasn't registered that region", rank));
  // No transfer waits for a small put. The next flush and the next verb to that region report the refusal. All other
  // operations continue.
  std::vector<Regions::Key>& puts = peers_.at(rank).refused_puts;
  if (message.ticket == done && channels_.contains({rank, message.region, message.nonce}) &&
      std::find(puts.begin(), puts.end(), key_of(message)) == puts.end())
    puts.push_back(key_of(message));
  if (message.nonce != 0 && !was_refused(rank, key_of(message)) && refused_.size() < most_refused)
    refused_.emplace_back(rank, key_of(message));
}

void Target::add_channel(int peer, const Regions::Key& region) { ++channels_[{peer, region.index, region.nonce}]; }

void Target::remove_channel(int peer, const Regions::Key& region) noexcept {
  const auto channel = channels_.find({peer, region.index, region.nonce});
  if (channel == channels_.end() || --channel->second > 0) return;
  channels_.erase(channel);
  std::erase(peers_.at(peer).refused_puts, region);
}

bool Target::was_refused(int peer, const Regions::Key& region) const noexcept {
  return !refused_.empty() && std::find(refused_.begin(), refused_.end(), std::pair(peer, region)) != refused_.end();
}

int Target::answer() noexcept {
  // The lists don't grow during the loop: sending may deliver only answers to this rank itself, and an answer needs no
  // answer.
  int count = 0;
  for (Due& due : due_) {
    AmPeer& peer = peers_.at(due.rank);
    for (; due.first < due.answers.size() && peers_.has_room(peer); ++count) {
      if (due.answers[due.first].region == nullptr) {
        // A failed peer needs no answer: it detects the failure itself.
        const base::Status status = peers_.send_joined(
            peer,
            [&]() noexcept -> const Message* {
              const bool is_next = due.first < due.answers.size() && due.answers[due.first].region == nullptr;
              return is_next ? &due.answers[due.first].message : nullptr;
            },
            [&]() noexcept { ++due.first; });
        if (status.code == Code::out_of_memory) peers_.fail(peer, status);
      } else if (send_part(peer, due.answers[due.first])) {
        ++due.first;
      }
    }
    // Erase the sent entries in batches, not one by one.
    if (due.first > 64 && due.first > due.answers.size() / 2) {
      due.answers.erase(due.answers.begin(), due.answers.begin() + static_cast<std::ptrdiff_t>(due.first));
      due.first = 0;
    }
  }
  std::erase_if(due_, [&](Due& due) {
    if (due.first < due.answers.size()) return false;
    due.first = 0;
    due.answers.clear();
    spare_.push_back(std::move(due));
    return true;
  });
  return count;
}

bool Target::send_part(AmPeer& peer, Answer& answer) noexcept {
  const std::uint64_t bytes = std::min(peers_.traits().chunk_bytes, answer.bytes);
  // A failed peer needs no answer: it detects the failure itself.
  const base::Status status =
      peers_.send(peer, answer.message, answer.region->base + answer.offset, bytes, answer.region);
  if (status.code == Code::out_of_memory) peers_.fail(peer, status);
  answer.message.offset += bytes;
  answer.offset += bytes;
  answer.bytes -= bytes;
  return !status.ok() || answer.bytes == 0;
}

void Target::forget(const Regions::Registered& region) noexcept {
  for (Due& due : due_) {
    for (Answer& answer : due.answers) {
      if (answer.region != &region) continue;
      answer.region = nullptr;
      answer.message.kind = MessageKind::refused;
    }
  }
}

}  // namespace hmc::transport::am
