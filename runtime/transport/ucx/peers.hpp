// Peers: the endpoints of one wire, and sending on them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/status.hpp"
#include "runtime/transport/ucx/message.hpp"
#include "runtime/transport/ucx/regions.hpp"
#include "runtime/transport/ucx/tickets.hpp"
#include "runtime/transport/ucx/worker.hpp"

namespace hmc::transport::ucx {

class Peers;
struct Sending;

/// One rank as this wire sees it.
struct Peer {
  int rank = -1;
  base::Bytes address;          ///< empty: it has no such wire
  std::uint64_t secret = 0;     ///< what a message to it must hold
  ucp_ep_h endpoint = nullptr;  ///< null until the first message to it
  base::Status failure;         ///< sticks
  std::uint64_t sent = 0;       ///< messages to it
  std::uint64_t received = 0;   ///< messages from it
  std::uint64_t posted = 0;     ///< verbs for it, each of which is one message or several
  std::uint64_t asked = 0;      ///< `posted` after the last verb that a flush waits for
  std::uint64_t flushed = 0;    ///< all verbs before this one are visible there
  bool distrusted = false;      ///< its messages came out of order, or not whole: none is believed any more
  bool put_refused = false;     ///< it refused a put since the last flush
  std::uint32_t in_flight = 0;  ///< messages that UCX hasn't let go of
  Sending* first = nullptr;     ///< the queue: what is posted and not yet UCX's
  Sending* last = nullptr;
  Peers* owner = nullptr;
};

/// A message, or a large put of several, from its posting until UCX has let go of it: UCX reads the header,
/// and small data, from here.
struct Sending {
  Message message;
  Peer* peer = nullptr;
  const std::byte* source = nullptr;
  std::uint64_t bytes = 0;  ///< still to be sent, with what rides along
  bool joined = false;      ///< others ride with it, so `message.bytes` is known already
  Ticket ticket = done;     ///< advances by one when UCX has let go of a part of the source
  Regions::Exposed* reading = nullptr;
  Sending* next = nullptr;
  std::byte data[joined_bytes];
};

/// Connects on the first message. Messages to one peer arrive in the order of post() and send(): each is
/// one fragment on one lane, the property by which UCX matches tags in order. The receiver checks it.
/// Under the engine's lock.
class Peers {
 public:
  Peers(Worker& worker, Tickets& tickets, base::Log log) : worker_(worker), tickets_(tickets), log_(log) {}
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
  /// and down when UCX has let go of it.
  base::Status send(Peer& peer, const Message& message, const void* data, std::uint64_t bytes,
                    Regions::Exposed* reading) noexcept;
  static bool has_room(const Peer& peer) noexcept { return peer.in_flight < most_in_flight; }
  /// Sends from the queues as far as there is room; returns how many messages.
  int pump() noexcept;
  /// pump() would send something.
  bool could_pump() const noexcept;
  /// Takes out of the queue what isn't sent of a verb.
  void unqueue(int rank, Ticket ticket) noexcept;

  /// Records in use: verbs in the queues, and messages in UCX's hands.
  std::size_t sending() const noexcept { return records_.size() - free_.size(); }
  std::size_t records() const noexcept { return records_.size(); }

  void fail(Peer& peer, base::Status status) noexcept;
  /// Fails whoever is being sent bytes of `region`, which must become free.
  void fail_readers(const Regions::Exposed& region, base::Status status) noexcept;
  /// What failed since the last call, outside of UCX's callbacks: ends its connection, and then, when UCX
  /// has let go of their memory, its transfers.
  void bury() noexcept;
  bool any_failed() const noexcept { return !failed_.empty(); }
  /// Ends all connections; returns when that is done, or after two seconds. Once.
  void close() noexcept;

 private:
  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) noexcept;
  base::Status ready(Peer& peer) noexcept;
  base::Status connect(Peer& peer) noexcept;
  void describe(const Peer& peer) const;
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
  void finish(Sending& record, ucs_status_t status) noexcept;
  void bury(Peer& peer) noexcept;
  void close_endpoint(Peer& peer, unsigned flags) noexcept;
  void wait_closing(std::int64_t limit_ns) noexcept;

  Worker& worker_;
  Tickets& tickets_;
  base::Log log_;
  std::vector<Peer> peers_;
  std::vector<int> queued_;     // who has a queue
  std::vector<int> failed_;     // to be buried
  std::vector<void*> closing_;  // UCX's requests
  // All there are. Never more than were in use at once, and whoever issues a verb waits a while above a few
  // thousand (Engine::relieve).
  std::vector<std::unique_ptr<Sending>> records_;
  std::vector<Sending*> free_;
  bool closed_ = false;
};

}  // namespace hmc::transport::ucx
