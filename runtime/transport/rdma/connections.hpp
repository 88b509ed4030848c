// Connections: the queue pairs to the peers, and the handshake that connects them on first use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/rdma/queue_pair.hpp"

namespace hmc::transport::rdma {

struct Options {
  int rank = 0;                               ///< in the job; -1: an OpenWire outside a job
  int size = 1;                               ///< of the job, or the number of peers of an OpenWire
  std::string device;                         ///< HMC_RDMA_DEVICE
  int gid_index = -1;                         ///< HMC_RDMA_GID; negative: by preference
  int queue_pairs = 1;                        ///< HMC_RDMA_QPS: per peer, for large transfers
  std::int64_t timeout_ns = 300'000'000'000;  ///< of a connection attempt
  int lost_host_s = 10;                       ///< HMC_LOST_HOST_S
  const base::Waiter* waiter = nullptr;       ///< ends a connection attempt when the job fails; null: none
  base::Log log{};
};

/// One peer. The queue pairs and the state of the handshake are protected by Connections' lock until `is_ready`.
struct Peer {
  int rank = -1;
  bool has_address = false;
  Remote remote;  ///< without number and first_packet
  std::uint32_t datagram_number = 0;
  std::uint32_t datagram_key = 0;
  std::uint64_t secret = 0;           ///< every handshake message to the peer must contain it
  std::uint64_t accepted_secret = 0;  ///< every handshake message from the peer must contain it; 0: none is accepted
  std::uint32_t origin = 0;           ///< this side's number at the peer; in a job this rank
  std::uint32_t queue_pairs = 1;      ///< agreed: the smaller number of both sides
  Owned<ibv_ah> route;
  std::vector<std::unique_ptr<QueuePair>> pairs;
  bool is_connected = false;  ///< this side accepts the peer's requests
  std::string refusal;        ///< the reason why this side or the peer can't connect
  // Stored (release) when the peer has replied, so that its queue pairs accept requests; pairs with the owner's acquire
  // load, which then sees `pairs`.
  std::atomic<bool> is_ready{false};
  std::atomic<bool> is_refused{false};  ///< stored (release) after `refusal`; pairs with the owner's acquire load

  // ---- only the owner
  bool is_open = false;              ///< the owner has seen is_ready
  bool is_failure_reported = false;  ///< to a flush of all peers
  base::Status failure;              ///< the first failure; permanent
  std::uint32_t stripes = 0;         ///< requests in flight on queue pairs other than the first
  std::uint32_t loops = 0;           ///< atomics in flight that are loops of compare-swaps
  bool is_fenced = false;            ///< stripes must wait for the requests in flight on the first queue pair
};

/// Each wire has one datagram queue pair. A rank that needs a connection sends a request with the numbers of its queue
/// pairs, and repeats it until the peer replies with the numbers of its own. The peer's progress thread replies even
/// while its owner computes. A reply means that the peer's queue pairs accept requests, so each side posts only after a
/// reply to its own request. Both sides may send requests at the same time: requests and replies have the same numbers.
///
/// A message without a secret of the receiver is dropped and counted. Threads: connect() and the constructor by the
/// owner; the progress thread sleeps on the datagrams' completion channel.
class Connections {
 public:
  /// Throws Error{unavailable}.
  explicit Connections(const Options& options);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  base::Bytes address() const;
  void set_addresses(const std::vector<base::Bytes>& addresses);
  // ---- outside a job: peers are added and removed. OpenWire states the order of the calls.
  base::Bytes offer(int number);
  void add(int number, base::ByteView address);
  /// Later handshake messages of the peer are dropped, so the progress thread no longer accesses the peer.
  void refuse(Peer& peer) noexcept;
  /// Destroys the queue pairs and frees the number. Called after refuse(), when the queue pairs are idle.
  void forget(Peer& peer) noexcept;
  const Device& device() const noexcept { return device_; }
  /// Completions of the requests on all connections. The upper half of an id names the queue pair: see pair_of().
  ibv_cq* completions() const noexcept { return completions_.get(); }
  int count() const noexcept { return static_cast<int>(peers_.size()); }
  Peer& at(int rank) noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  const Peer& at(int rank) const noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  /// The peer and the queue pair of a completion's id.
  Peer& peer_of(std::uint64_t id) noexcept { return at(static_cast<int>((id >> 32) & 0xffffff)); }
  /// Null: the queue pair was destroyed.
  QueuePair* pair_of(std::uint64_t id) noexcept {
    const auto& pairs = peer_of(id).pairs;
    return (id >> 56) < pairs.size() ? pairs[id >> 56].get() : nullptr;
  }

  /// Returns when the peer accepts requests.
  base::Status connect(Peer& peer) noexcept;
  /// The number of dropped messages: malformed ones, and those without a secret of this side.
  std::uint64_t refusals() const noexcept { return refusals_.load(std::memory_order_relaxed); }

 private:
  enum class Kind : std::uint8_t { request, reply, refusal };
  static constexpr std::uint32_t receives = 128;
  static constexpr std::uint32_t sends = 32;
  static constexpr std::size_t header = 40;  // of the network, before each received datagram
  static constexpr std::size_t most_bytes = 256;

  base::Bytes encode_address(std::uint64_t secret, std::uint32_t origin) const;
  void create_peers(std::size_t count);
  /// Throws Error{refused}.
  void know(Peer& peer, base::ByteView address) const;
  void create_datagrams();
  void run() noexcept;
  int serve() noexcept;
  void receive(base::ByteView bytes) noexcept;
  /// Creates the queue pairs to a peer, unless they exist.
  void create(Peer& peer);
  void connect_pairs(Peer& peer, base::ByteReader& in);
  void send(Peer& peer, Kind kind) noexcept;
  void post_receive(std::uint32_t index) noexcept;
  std::byte* receive_buffer(std::uint32_t index) const noexcept { return buffers_ + index * (header + most_bytes); }
  std::byte* send_buffer(std::uint32_t index) const noexcept {
    return buffers_ + receives * (header + most_bytes) + index * most_bytes;
  }

  const Options options_;
  const std::uint64_t secret_;
  const std::uint32_t datagram_key_;
  Device device_;
  Owned<ibv_cq> completions_;
  std::uint32_t reserved_completions_ = 0;  // the sum of the depths of all queue pairs
  std::vector<std::unique_ptr<Peer>> peers_;

  std::mutex lock_;  // the handshake
  std::vector<std::byte> memory_;
  std::byte* buffers_ = nullptr;
  Owned<ibv_mr> registration_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> datagrams_done_;
  Owned<ibv_qp> datagrams_;
  std::uint32_t sends_in_flight_ = 0;
  std::uint32_t next_send_ = 0;
  std::atomic<std::uint64_t> refusals_{0};  // relaxed: a statistic

  base::Poller poller_;  // the progress thread's
  std::thread thread_;
};

}  // namespace hmc::transport::rdma
