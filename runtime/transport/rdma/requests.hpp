// Requests: posts requests to the queue pairs of the peers, and executes the effects of their completions.
#pragma once

#include <sched.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/transport/rdma/bounce_buffers.hpp"
#include "runtime/transport/rdma/connections.hpp"
#include "runtime/transport/rdma/transfers.hpp"

namespace hmc::transport::rdma {

/// A failed request fails its peer permanently; other peers aren't affected. Every wait makes progress and ends when
/// the peer fails or the job is aborted. Under the wire's lock.
class Requests {
 public:
  /// Receives the completions of Record::Kind::loop.
  class LoopUser {
   public:
    /// `seen` is the value of the word before the compare-swap. The send queue has space for the loop's next request.
    virtual void continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept = 0;

   protected:
    ~LoopUser() = default;
  };

  /// Throws Error{unavailable}.
  explicit Requests(const Options& options);
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// Called before the first request of Record::Kind::loop. `loops` outlives these requests.
  void set_loop_user(LoopUser& loops) noexcept { loops_ = &loops; }
  Connections& connections() noexcept { return connections_; }
  const Connections& connections() const noexcept { return connections_; }
  const Device& device() const noexcept { return connections_.device(); }
  Transfers& transfers() noexcept { return transfers_; }
  BounceBuffers& buffers() noexcept { return buffers_; }
  /// The peers with connections.
  const std::vector<Peer*>& open_peers() const noexcept { return open_; }
  /// Allocates memory for `count` peers, so that a connection on first use allocates none here.
  void reserve_peers(std::size_t count) { open_.reserve(count); }

  /// Connects on first use. On success the peer accepts requests.
  base::Status ready(Peer& peer) noexcept {
    if (peer.is_open && peer.failure.ok()) [[likely]]
      return {};
    return open(peer);
  }
  /// Waits until the queue pair has space for `requests`.
  base::Status reserve(Peer& peer, QueuePair& pair, std::uint32_t requests) noexcept;
  /// Waits until a bounce buffer is free, and takes it.
  base::Status take_buffer(Peer& peer, std::uint16_t& number) noexcept;
  /// Posts a signalled request without effect, so that the requests in flight complete. The queue pair has space.
  void cover(Peer& peer, QueuePair& pair, Ticket ticket) noexcept;
  /// Posts the requests that were added by QueuePair::add(). `first` is the first of them.
  void post(Peer& peer, QueuePair& pair, ibv_send_wr& first) noexcept;
  /// Waits while `busy()`. `peer` may be null.
  template <typename Busy> base::Status drain(const Peer* peer, Busy&& busy) noexcept {
    unsigned rounds = 0;
    while (busy()) {
      if (peer != nullptr && !peer->failure.ok()) return peer->failure;
      if (progress() > 0) continue;
      idle(rounds);
      if (options_.waiter == nullptr || rounds % 1024 != 0) continue;
      if (const base::Status aborted = options_.waiter->page().aborted(); !aborted.ok()) return aborted;
    }
    return {};
  }
  /// Counts a request before it is posted on a queue pair other than the first.
  void add_stripe(Peer& peer) noexcept {
    ++peer.stripes;
    ++stripes_;
  }
  /// Such requests in flight to all peers.
  std::uint32_t stripes() const noexcept { return stripes_; }

  int progress() noexcept;
  void fail(Peer& peer, const char* why) noexcept;
  /// If the device accesses the caller's memory, waits for the transfer. Closes the connection if no request of it
  /// completes until `limit`, or for one second.
  void reclaim(Ticket ticket, std::int64_t limit) noexcept;
  void reclaim(Ticket ticket) noexcept { reclaim(ticket, base::now_ns() + longest_reclaim_ns); }
  /// Reclaims all transfers that belong to the channel.
  void reclaim_all(const void* channel) noexcept;
  /// Waits for the requests in flight, at most half a second. Returns true if none is left. Called before the queue
  /// pairs are destroyed, because that would drop unsignalled puts.
  bool finish() noexcept;
  /// Ends the connection of an OpenWire's peer.
  void remove(Peer& peer) noexcept;

 private:
  static constexpr std::int64_t longest_reclaim_ns = 1'000'000'000;

  base::Status open(Peer& peer) noexcept;
  /// Called between polls without a completion. Yields now and then, so that other threads can run on a busy core.
  static void idle(unsigned& rounds) noexcept {
    if (++rounds % 64 == 0)
      ::sched_yield();
    else
      base::cpu_relax();
  }
  /// Completes the request and all earlier ones on its queue pair. The earlier ones have succeeded, unless `fails_all`.
  void complete(const ibv_wc& completion, bool fails_all = false) noexcept;

  const Options options_;
  LoopUser* loops_ = nullptr;
  Connections connections_;
  BounceBuffers buffers_;
  Transfers transfers_;
  std::vector<Peer*> open_;
  std::uint32_t stripes_ = 0;
};

}  // namespace hmc::transport::rdma
