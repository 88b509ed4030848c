// Peers: the state and the send queue of each peer of one wire.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/status.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/message.hpp"
#include "runtime/transport/am/regions.hpp"
#include "runtime/transport/am/tickets.hpp"
#include "runtime/transport/keystream.hpp"

namespace hmc::transport::am {

struct Sending;

/// The state of one peer.
struct AmPeer {
  int rank = -1;
  base::Bytes address;                ///< empty: the rank doesn't have this wire
  std::uint64_t secret = 0;           ///< of the peer's wire for this rank, from the peer's address
  std::uint64_t accepted_secret = 0;  ///< of this wire for the peer; 0: no message from the peer is accepted
  Keystream tags;                     ///< of messages to the peer, by their sequence numbers; has a key when connected
  Keystream accepted_tags;            ///< of messages from the peer; has a key from the first message on
  std::uint32_t origin = 0;           ///< the number by which the peer knows this rank; in a job its rank
  bool connected = false;             ///< true from the first message on
  base::Status failure;               ///< the first failure; permanent
  std::uint64_t sent = 0;             ///< messages to the peer
  std::uint64_t received = 0;         ///< messages from the peer
  std::uint64_t posted = 0;           ///< verbs for the peer; each is one or more messages
  std::uint64_t asked = 0;            ///< the value of `posted` after the last verb that a flush must cover
  std::uint64_t flushed = 0;          ///< the first `flushed` verbs are visible at the peer
  std::uint64_t results_due = 0;      ///< atomics whose old value hasn't arrived
  bool distrusted = false;            ///< its messages were malformed or out of order: all later ones are dropped
  std::vector<Regions::Key> refused_puts;  ///< regions for which the peer refused a put since the last flush
  std::uint32_t in_flight = 0;             ///< messages that the link holds
  Sending* first = nullptr;                ///< the queue of posted verbs that the link hasn't accepted yet
  Sending* last = nullptr;
};

/// A message, or a large put of several messages. In use from post() until the link releases it. The link reads the
/// header, and small data, from here.
struct Sending {
  AmPeer* peer = nullptr;
  const std::byte* source = nullptr;
  bool joined = false;   ///< other messages follow in `data`, so `message.bytes` is already set
  Ticket ticket = done;  ///< advances by one when the link has released a part of the source
  Regions::Registered* reading = nullptr;
  void* context = nullptr;  ///< of the link, for its callbacks
  Sending* next = nullptr;
  // Contiguous, so that a link can send the following members in one call.
  std::uint64_t bytes = 0;  ///< to be sent after the header, joined messages included
  Message message;
  std::byte data[joined_bytes];

  bool has_data_inside() const noexcept { return source == data; }
};

/// In an address: the peer sends its own rank as origin.
inline constexpr std::uint32_t own_rank = UINT32_MAX;
/// The address by which one peer, or each rank of a job, sends to this wire. `origin` identifies the sender.
base::Bytes encode_address(std::uint64_t secret, std::uint32_t origin, const base::Bytes& link);

/// Connects on the first message. Messages to one peer arrive in the order of post() and send(); the receiver checks
/// it. Threads: under AmWire's lock.
class Peers {
 public:
  /// `key` isn't sent, so that an observer of addresses and messages can't compute tags. All zero: not known; then no
  /// network is between the ranks.
  Peers(ByteLink& link, Tickets& tickets, base::Log log, const Keystream::Key& key = {})
      : link_(link), traits_(link.traits()), tickets_(tickets), log_(log), key_(key) {}
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Creates `count` peers without an address. In a job each message carries `origin`, this rank, and `accepted` is the
  /// wire's secret.
  void create(std::size_t count, std::uint32_t origin, std::uint64_t accepted);
  /// Sets a peer's address, in the format of encode_address(). Throws Error{refused}.
  void know(int rank, base::ByteView address);
  /// Releases the messages and transfers of a peer and forgets it. Must not be called from the link's callbacks.
  void forget(int rank) noexcept;
  /// True if the message's tag is that of its sequence number: its origin has sent it, or an observer repeats its tag.
  bool has_tag(const Message& message) noexcept;
  /// True if it is also the next message of its origin.
  bool knows(const Message& message) noexcept {
    return has_tag(message) && message.sequence == at(static_cast<int>(message.origin)).received;
  }
  int count() const noexcept { return static_cast<int>(peers_.size()); }
  AmPeer& at(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const AmPeer& at(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  /// Posts a verb: sends it at once if has_room(), otherwise queues it for pump(). Data up to inline_bytes is copied;
  /// larger data stays in use until the ticket has been advanced once per chunk. The last chunk is sent as `message`;
  /// earlier chunks are plain puts.
  /// `hold`: the verb may be held back until the next verb to that peer or until pump(), so that both are joined into
  /// one message.
  base::Status post(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
                    bool hold = false) noexcept;
  /// Connects on first use.
  base::Status ready(AmPeer& peer) noexcept;
  /// Starts, by `start(record)`, a put, get or flush that isn't sent as a message, but that the link reports as it
  /// reports a message. `start` returns as ByteLink::send. A put of up to inline_bytes is copied.
  template <typename Start>
  base::Status start(AmPeer& peer, const Message& verb, const void* local, std::uint64_t bytes, Ticket ticket,
                     Start start) noexcept {
    if (const base::Status status = ready(peer); !status.ok()) return status;
    Sending* const record = take(peer, verb);
    if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a transfer", peer.rank);
    record->ticket = ticket;
    record->source = static_cast<const std::byte*>(local);
    record->bytes = bytes;
    if (verb.kind == MessageKind::put && bytes <= inline_bytes) {
      std::memcpy(record->data, local, bytes);
      record->source = record->data;
    }
    if (reads_memory(*record))
      if (Tickets::Transfer* const transfer = tickets_.known(ticket)) ++transfer->sending;
    ++peer.in_flight;
    const base::Status started = start(*record);
    if (started.code == Code::in_progress) return {};
    finish(*record, started);
    return started.ok() ? base::Status{} : peer.failure;
  }
  /// Sends one message now; the caller has checked has_room(). `reading` is the region that contains the data: its
  /// `sending` count is incremented now and decremented when the link releases the message.
  base::Status send(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes,
                    Regions::Registered* reading) noexcept;
  /// Sends now, as one message, the messages without data that `next` returns, until it returns null or the message is
  /// full. Calls `taken` after each. The caller has checked has_room(), and `next` returns at least one.
  template <typename Next, typename Taken> base::Status send_joined(AmPeer& peer, Next next, Taken taken) noexcept {
    if (const base::Status status = ready(peer); !status.ok()) {
      taken();
      return status;
    }
    Sending* const record = take(peer, *next());
    taken();
    if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank);
    record->source = record->data;
    record->bytes = record->message.bytes = 0;
    for (const Message* message = next(); message != nullptr && record->bytes + sizeof *message <= joined_bytes;
         message = next()) {
      record->joined = true;
      std::memcpy(record->data + record->bytes, message, sizeof *message);
      record->bytes += sizeof *message;
      taken();
    }
    return hand_over(*record);
  }
  bool has_room(const AmPeer& peer) const noexcept { return peer.in_flight < traits_.most_in_flight; }
  /// Number of messages of a put of that size.
  std::uint64_t parts(std::uint64_t bytes) const noexcept {
    return (bytes + traits_.chunk_bytes - 1) / traits_.chunk_bytes;
  }
  const ByteLink::Traits& traits() const noexcept { return traits_; }
  /// Sends from the queues while has_room(); returns the number of messages.
  int pump() noexcept;
  /// True if pump() would send a message.
  bool could_pump() const noexcept;
  /// Removes the unsent rest of a verb from the queue.
  void unqueue(int rank, Ticket ticket) noexcept;

  /// Records in use: verbs in the queues and messages held by the link.
  std::size_t sending() const noexcept { return records_.size() - free_.size(); }
  std::size_t records() const noexcept { return records_.size(); }

  void fail(AmPeer& peer, base::Status status) noexcept;
  /// Fails every peer to which a message with bytes of `region` is in flight, so that `region` can be released.
  void fail_readers(const Regions::Registered& region, base::Status status) noexcept;
  /// For each peer that failed since the last call: closes its connection, waits until the link has released its
  /// messages, then fails its transfers. Must not be called from the link's callbacks.
  void reap() noexcept;
  bool any_failed() const noexcept { return !failed_.empty(); }
  /// Closes all connections; returns when they are closed, or after two seconds. Only the first call has an effect.
  void close() noexcept;

  // ---- called for the link's events
  void finish(Sending& record, base::Status status) noexcept;
  void lost(int rank, const char* why, int error) noexcept;

 private:
  base::Status connect(AmPeer& peer) noexcept;
  /// A flush accesses no memory of the caller.
  static bool reads_memory(const Sending& record) noexcept { return record.message.kind != MessageKind::flush; }
  /// Of the messages to the wire with this secret, from the rank that it knows as `origin`.
  Keystream tags(std::uint64_t secret, std::uint32_t origin) const noexcept;
  Sending* take(AmPeer& peer, const Message& message) noexcept;
  void give_back(Sending& record) noexcept { free_.push_back(&record); }
  void enqueue(AmPeer& peer, Sending& record) noexcept;
  Sending* dequeue(AmPeer& peer) noexcept;
  /// Appends a small verb to the last message of the queue, if it has space.
  static bool join(AmPeer& peer, const Message& message, const void* data, std::uint64_t bytes) noexcept;
  /// Sends one message of the first verb in the queue.
  base::Status send_first(AmPeer& peer) noexcept;
  /// Sends the verbs before `end` in the queue, while has_room().
  base::Status drain(AmPeer& peer, const Sending* end) noexcept;
  base::Status hand_over(Sending& record) noexcept;
  void reap(AmPeer& peer) noexcept;
  void disconnect(AmPeer& peer, bool at_once) noexcept;
  void wait_closing(std::int64_t limit_ns) noexcept;

  ByteLink& link_;
  const ByteLink::Traits& traits_;
  Tickets& tickets_;
  base::Log log_;
  const Keystream::Key key_;
  std::vector<AmPeer> peers_;
  std::vector<int> queued_;  // ranks with a nonempty queue
  std::vector<int> failed_;  // for reap()
  // All records, as many as were ever in use at once. Above a few thousand in use, a rank that issues a verb first
  // makes progress for a while (AmWire::relieve).
  std::vector<std::unique_ptr<Sending>> records_;
  std::vector<Sending*> free_;
  bool closed_ = false;
};

}  // namespace hmc::transport::am
