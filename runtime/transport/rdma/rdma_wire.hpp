// RdmaWire: the `verbs` wire, whose verbs the RDMA device of the target executes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/rdma/bounce_buffers.hpp"
#include "runtime/transport/rdma/connections.hpp"
#include "runtime/transport/rdma/transfers.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::rdma {

/// README.md states the guarantees and the path of each verb.
/// Threads: the owner. Connections' progress thread answers peers that connect; it touches no transfer.
class RdmaWire final : public OpenWire {
 public:
  /// Throws Error{unavailable}.
  explicit RdmaWire(const Options& options);
  ~RdmaWire() override;

  std::string_view name() const noexcept override { return "verbs"; }
  Capabilities capabilities() const noexcept override;
  base::Bytes address() override { return connections_.address(); }
  void set_peer_addresses(std::vector<base::Bytes> addresses) override;
  base::Bytes offer(int number) override;
  void add_peer(int number, base::ByteView address) override { connections_.add(number, address); }
  void remove_peer(int number) noexcept override;
  base::Status peer_status(int number) noexcept override { return connections_.at(number).failure; }
  Reach reaches(int peer) const override;
  base::Bytes register_region(const Region& mine) override;
  std::vector<std::unique_ptr<transport::Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                           std::span<const int> peers,
                                                           base::Deadline deadline) override;
  void deregister_region(const Region& mine) noexcept override;
  /// The registration, and with it the pages, stays until the wire ends: a peer's access with an invalid key would fail
  /// its connection.
  void retire_region(const Region& mine) noexcept override;

  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override { return transfers_.test(ticket); }
  /// If the device accesses the caller's memory, waits for the transfer. Closes the connection if no request of it
  /// completes for one second.
  void abandon(Ticket ticket) noexcept override;
  base::Status fence() noexcept override;
  base::Status flush(int peer, Ticket& ticket) noexcept override;

  // ---- state, for tests
  std::uint64_t refusals() const noexcept { return connections_.refusals(); }
  const Device& device() const noexcept { return connections_.device(); }

 private:
  class Channel;
  struct Registered {
    const std::byte* base = nullptr;
    std::size_t bytes = 0;
    Owned<ibv_mr> registration;
  };

  /// Connects on first use. On success the peer accepts requests.
  base::Status open(Peer& peer) noexcept;
  base::Status ready(Peer& peer) noexcept {
    if (peer.is_open && peer.failure.ok()) [[likely]]
      return {};
    return open(peer);
  }
  /// Makes progress until the queue pair has space for `requests`. Fails only if the peer does.
  base::Status reserve(Peer& peer, QueuePair& pair, std::uint32_t requests) noexcept;
  /// Makes progress until a bounce buffer is free, and takes it.
  base::Status take_buffer(Peer& peer, std::uint16_t& number) noexcept;
  /// Posts a signalled request without effect, so that the requests in flight complete. The queue pair has space.
  void cover(Peer& peer, QueuePair& pair, Ticket ticket) noexcept;
  void post(Peer& peer, QueuePair& pair, ibv_send_wr& first) noexcept;
  /// Makes progress while `busy()`; fails when the peer fails.
  template <typename Busy> base::Status drain(const Peer* peer, Busy&& busy) noexcept;

  base::Status write(const Channel& to, std::uint64_t offset, const std::byte* source, std::size_t bytes,
                     const std::uint64_t* signal, std::uint64_t signal_offset, Ticket& ticket) noexcept;
  base::Status read(const Channel& to, std::uint64_t offset, std::byte* destination, std::size_t bytes,
                    Ticket& ticket) noexcept;
  base::Status atomic(const Channel& to, const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      Ticket& ticket) noexcept;
  /// The transfer between the caller's memory, which the device accesses, and the peer's.
  base::Status move(const Channel& to, ibv_wr_opcode opcode, std::uint64_t remote, std::byte* local, std::size_t bytes,
                    std::uint32_t key, Owned<ibv_mr> registration, Ticket& ticket) noexcept;
  void post_loop(Peer& peer, Ticket ticket) noexcept;
  void continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept;
  const Registered* registered(const std::byte* memory, std::size_t bytes) const noexcept;

  /// Completes the request and all earlier ones on its queue pair. The earlier ones have succeeded, unless `fails_all`.
  void complete(const ibv_wc& completion, bool fails_all = false) noexcept;
  void fail(Peer& peer, const char* why) noexcept;
  void reclaim(Ticket ticket, std::int64_t limit) noexcept;

  const Options options_;
  Connections connections_;
  BounceBuffers buffers_;
  std::vector<Registered> regions_;
  std::vector<Owned<ibv_mr>> retired_;
  std::vector<Peer*> open_;  // peers with connections, for flush
  Transfers transfers_;
  int without_ = -1;           // a rank that has no verbs wire
  std::uint32_t stripes_ = 0;  // in flight, to all peers
  std::uint32_t loops_ = 0;    // atomics in flight that are loops
  bool has_reads_ = false;     // READs or atomics since the last fence
};

}  // namespace hmc::transport::rdma
