// Peers: the endpoints of one wire, and sending on them.
#pragma once

#include <cstdint>
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

namespace hmc::transport::am {

class Peers;
struct Sending;

/// One rank as this wire sees it.
struct Peer {
  int rank = -1;
  base::Bytes address;                     ///< empty: it has no such wire
  std::uint64_t secret = 0;                ///< what a message to it must hold
  bool connected = false;                  ///< since the first message to it
  base::Status failure;                    ///< sticks
  std::uint64_t sent = 0;                  ///< messages to it
  std::uint64_t received = 0;              ///< messages from it
  std::uint64_t posted = 0;                ///< verbs for it, each of which is one message or several
  std::uint64_t asked = 0;                 ///< `posted` after the last verb that a flush waits for
  std::uint64_t flushed = 0;               ///< all verbs before this one are visible there
  bool distrusted = false;                 ///< its messages came out of order, or not whole: none is believed any more
  std::vector<Regions::Key> refused_puts;  ///< regions for which it refused one since the last flush
  std::uint32_t in_flight = 0;             ///< messages that the link hasn't let go of
  Sending* first = nullptr;                ///< the queue: what is posted and not yet the link's
  Sending* last = nullptr;
  Peers* owner = nullptr;
};

/// A message, or a large put of several, from its posting until the link has let go of it, which reads the header, and
/// small data, from here.
struct Sending {
  Peer* peer = nullptr;
  const std::byte* source = nullptr;
  bool joined = false;   ///< others ride with it, so `message.bytes` is known already
  Ticket ticket = done;  ///< advances by one when the link has let go of a part of the source
  Regions::Registered* reading = nullptr;
  Sending* next = nullptr;
  // In a row, for a link that sends them as one piece.
  std::uint64_t bytes = 0;  ///< still to be sent after the header, with what rides along
  Message message;
  std::byte data[joined_bytes];

  bool has_data_inside() const noexcept { return source == data; }
};

/// Connects on the first message. Messages to one peer arrive in the order of post() and send(); the receiver checks
/// it. Under the engine's lock.
class Peers {
 public:
  Peers(Link& link, Tickets& tickets, base::Log log)
      : link_(link), traits_(link.traits()), tickets_(tickets), log_(log) {}
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void know(std::vector<base::Bytes> addresses);
  int count() const noexcept { return static_cast<int>(peers_.size()); }
  Peer& at(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& at(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  /// A verb: sent at once if there is room, and else behind those before it, by pump(). Data up to
  /// inline_bytes is copied; else it stays in use until the ticket was advanced once per chunk. The last
  /// chunk is `message`, those before it are plain puts.
  /// `hold`: it may wait for the next verb to that peer, or for pump(), so that they are one message.
  base::Status post(Peer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
                    bool hold = false) noexcept;
  /// One message, now: the caller has asked has_room(). `reading` is where the data lies, counted up now
  /// and down when the link has let go of it.
  base::Status send(Peer& peer, const Message& message, const void* data, std::uint64_t bytes,
                    Regions::Registered* reading) noexcept;
  bool has_room(const Peer& peer) const noexcept { return peer.in_flight < traits_.most_in_flight; }
  /// How many messages a put of so many bytes is.
  std::uint64_t parts(std::uint64_t bytes) const noexcept {
    return (bytes + traits_.chunk_bytes - 1) / traits_.chunk_bytes;
  }
  const Link::Traits& traits() const noexcept { return traits_; }
  Link& link() noexcept { return link_; }
  /// Sends from the queues as far as there is room; returns how many messages.
  int pump() noexcept;
  /// pump() would send something.
  bool could_pump() const noexcept;
  /// Takes out of the queue what isn't sent of a verb.
  void unqueue(int rank, Ticket ticket) noexcept;

  /// Records in use: verbs in the queues, and messages in the link's hands.
  std::size_t sending() const noexcept { return records_.size() - free_.size(); }
  std::size_t records() const noexcept { return records_.size(); }

  void fail(Peer& peer, base::Status status) noexcept;
  /// Fails whoever is being sent bytes of `region`, which must become free.
  void fail_readers(const Regions::Registered& region, base::Status status) noexcept;
  /// What failed since the last call, outside of the link's callbacks: ends its connection, and then, when the link
  /// has let go of their memory, its transfers.
  void reap() noexcept;
  bool any_failed() const noexcept { return !failed_.empty(); }
  /// Ends all connections; returns when that is done, or after two seconds. Once.
  void close() noexcept;

  // ---- told by the link
  void finish(Sending& record, base::Status status) noexcept;
  void lost(int rank, const char* why, int error) noexcept;

 private:
  base::Status ready(Peer& peer) noexcept;
  base::Status connect(Peer& peer) noexcept;
  Sending* take(Peer& peer, const Message& message) noexcept;
  void give_back(Sending& record) noexcept { free_.push_back(&record); }
  void enqueue(Peer& peer, Sending& record) noexcept;
  Sending* dequeue(Peer& peer) noexcept;
  /// Lets a small verb ride with the last one of the queue, where there is place for it.
  static bool join(Peer& peer, const Message& message, const void* data, std::uint64_t bytes) noexcept;
  /// Sends one message of the first verb in the queue.
  base::Status send_first(Peer& peer) noexcept;
  /// Sends what is before `end` in the queue, as far as there is room.
  base::Status drain(Peer& peer, const Sending* end) noexcept;
  base::Status hand_over(Sending& record) noexcept;
  void reap(Peer& peer) noexcept;
  void disconnect(Peer& peer, bool at_once) noexcept;
  void wait_closing(std::int64_t limit_ns) noexcept;

  Link& link_;
  const Link::Traits& traits_;
  Tickets& tickets_;
  base::Log log_;
  std::vector<Peer> peers_;
  std::vector<int> queued_;  // who has a queue
  std::vector<int> failed_;  // to be buried
  // All there are. Never more than were in use at once, and whoever issues a verb waits a while above a few
  // thousand (AmWire::relieve).
  std::vector<std::unique_ptr<Sending>> records_;
  std::vector<Sending*> free_;
  bool closed_ = false;
};

}  // namespace hmc::transport::am
