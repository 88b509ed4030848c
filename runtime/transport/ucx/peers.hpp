// Peers: the endpoints of one wire, and sending on them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/status.hpp"
#include "runtime/transport/ucx/message.hpp"
#include "runtime/transport/ucx/tickets.hpp"
#include "runtime/transport/ucx/worker.hpp"

namespace hmc::transport::ucx {

class Peers;

/// One rank as this wire sees it.
struct Peer {
  int rank = -1;
  base::Bytes address;          ///< empty: it has no such wire
  ucp_ep_h endpoint = nullptr;  ///< null until the first message to it
  base::Status failure;         ///< sticks
  std::uint64_t sent = 0;       ///< messages to it
  std::uint64_t received = 0;   ///< messages from it
  std::uint64_t asked = 0;      ///< `sent` after the last message that a flush waits for
  std::uint64_t flushed = 0;    ///< all before this one is visible there
  Peers* owner = nullptr;
};

/// A message on its way: UCX reads the header, and small data, from here until it was sent.
struct Sending {
  Message message;
  Peers* owner = nullptr;
  Ticket ticket = done;              ///< advances by one when UCX has let go of the source
  std::uint64_t* reading = nullptr;  ///< counted down then, too
  std::byte data[inline_bytes];
};

/// Connects on the first message. Messages to one peer arrive in the order of send(): each is one
/// fragment on one lane, the property by which UCX matches tags in order. The receiver checks it.
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

  /// Data up to inline_bytes is copied; else it stays in use until the ticket was advanced. Counts
  /// `reading` up now and down then. Fills in the sequence.
  base::Status send(Peer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
                    std::uint64_t* reading) noexcept;
  std::size_t sending() const noexcept { return records_.size() - free_.size(); }

  void fail(Peer& peer, base::Status status) noexcept;
  /// What failed since the last call, outside of UCX's callbacks: ends its transfers.
  void bury() noexcept;
  /// Ends all connections; `progress` is called until that is done, or for two seconds.
  void close() noexcept;

 private:
  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) noexcept;
  base::Status connect(Peer& peer) noexcept;
  void describe(const Peer& peer) const;
  Sending* take();
  void finish(Sending& record, ucs_status_t status) noexcept;
  void close_endpoint(Peer& peer, unsigned flags) noexcept;
  void wait_closing(std::int64_t limit_ns) noexcept;

  Worker& worker_;
  Tickets& tickets_;
  base::Log log_;
  std::vector<Peer> peers_;
  std::vector<int> failed_;                        // to be buried
  std::vector<void*> closing_;                     // UCX's requests
  std::vector<std::unique_ptr<Sending>> records_;  // all there are
  std::vector<Sending*> free_;
};

}  // namespace hmc::transport::ucx
