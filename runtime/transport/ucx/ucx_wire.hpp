// The ucx wire: UCX's put and get where an RDMA device executes them, and messages for all other verbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/ucx/remote_memory.hpp"
#include "runtime/transport/ucx/ucx_link.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport::ucx {

/// A wire of messages over UcxLink. If the link can access the memory of peers (RemoteMemory), put, get and put_signal
/// to a region are one-sided if its owner's link can, too. Atomics are messages also then.
///
/// UCX doesn't order one-sided verbs with messages. So before a verb of one kind, this wire waits for the verbs of the
/// other kind to that peer that precede the last fence. Threads: as AmWire, under the same lock.
class UcxWire final : public am::AmWire {
 public:
  UcxWire(const am::Options& options, std::unique_ptr<UcxLink> link) : UcxWire(options, *link, std::move(link)) {}
  ~UcxWire() override { stop(); }

  Capabilities capabilities() const noexcept override;
  void remove_peer(int number) noexcept override;
  base::Bytes register_region(const Region& mine) override;
  void deregister_region(const Region& mine) noexcept override;
  /// The memory stays registered until the wire ends: an access with an invalid key would fail the connection.
  void retire_region(const Region& mine) noexcept override { AmWire::deregister_region(mine); }
  bool receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  base::Status fence() noexcept override;
  base::Status flush(int peer, Ticket& ticket) noexcept override;

 protected:
  std::unique_ptr<am::AmWire::Channel> make_channel(int peer, base::ByteReader& key) override;

 private:
  class Channel;
  /// The number of fences before the oldest verb of each kind that isn't flushed yet.
  struct Order {
    std::uint64_t moves = 0;
    std::uint64_t messages = 0;
  };

  UcxWire(const am::Options& options, UcxLink& link, std::unique_ptr<UcxLink>&& owner);
  bool has_moves(int peer) noexcept { return ucx_.peer(peer).moved > ucx_.peer(peer).flushed; }
  bool has_messages(int peer) const noexcept { return peers_.at(peer).asked > peers_.at(peer).flushed; }
  Order& order_of(int peer) noexcept { return orders_[static_cast<std::size_t>(peer)]; }
  /// Orders a one-sided verb, or a message, after the verbs that precede the last fence. Under the lock.
  base::Status before_move(int peer) noexcept;
  base::Status before_message(int peer) noexcept;
  /// Waits until all verbs to the peer are complete there.
  base::Status settle(int peer) noexcept;
  base::Status flush_all(int first, int last, Ticket& ticket) noexcept;
  /// Starts a one-sided put or get; `address` is the peer's.
  base::Status move(am::MessageKind kind, const Channel& to, std::uint64_t address, const void* local,
                    std::uint64_t bytes, Ticket& ticket) noexcept;

  UcxLink& ucx_;
  RemoteMemory* const memory_;  // null: all verbs are messages
  std::vector<Order> orders_;   // by peer
  std::uint64_t fences_ = 0;    // calls of fence(), if there is memory_
  std::uint64_t ordered_ = 0;   // the value of fences_ at the last RemoteMemory::fence()
};

}  // namespace hmc::transport::ucx

namespace hmc::transport {

/// Loads UCX. `transports`: a value for UCX_TLS ("tcp", "^sm"), unless the user has set UCX_TLS; empty: UCX chooses.
/// Throws Error{unavailable} if UCX is missing or finds no network.
std::unique_ptr<am::AmWire> make_ucx_wire(const am::Options& options, const std::string& transports);
/// Uses the job's settings. If all ranks are on one machine, UCX's shared memory is disabled, because it isn't a
/// network.
std::unique_ptr<Wire> make_ucx_wire(const WireContext& context);
/// The version found, or the reason why UCX is unavailable; loads UCX.
std::string ucx_description();

}  // namespace hmc::transport
