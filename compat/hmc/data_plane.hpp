// DataPlane: the transfers of one Communicator: puts and gets, with and without ids, and the paired calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <hmc/types.hpp>

#include "compat/hmc/device_relay.hpp"
#include "compat/hmc/peers.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/status.hpp"
#include "runtime/memory/stage.hpp"

namespace hmc::compat {

/// The offsets of one transfer in this side's buffer and in the peer's, and its size.
struct Range {
  std::size_t local = 0;
  std::size_t remote = 0;
  std::size_t size = 0;
};
enum class Move { put, get };

/// The two halves of a buffer, in which messages of send_data arrive, one at a time. All DataPlanes of the buffer share
/// them.
struct Halves {
  std::mutex lock;  ///< held while a message arrives
  // The chunks that a sender may put; under `lock`.
  const rma::Endpoint* endpoint = nullptr;  ///< of the sender
  int peer = -1;
  std::uint64_t chunks = 0;
};

/// Device memory that the CPU can't access: this side's is staged through pinned host memory, a peer's is reached
/// through its relay (DeviceRelay). Threads: any. Paired calls of one kind and direction with one peer run one after
/// another.
class DataPlane {
 public:
  /// `halves`: of the buffer.
  DataPlane(Peers& peers, Halves& halves);

  /// Returns when all bytes are visible at the peer, or have arrived here. At most `inflight` chunks are in flight.
  base::Status move(Move move, Peer& peer, const Range& range, std::size_t chunk, std::size_t inflight,
                    base::Deadline deadline) noexcept;

  /// The same in one transfer, to the peer with this number; not_found if it was removed, unsupported if its buffer is
  /// device memory. Only if moves_at_once().
  base::Status move_at_once(Move move, int number, const Range& range, std::chrono::nanoseconds timeout) noexcept;
  bool moves_at_once() const noexcept { return endpoint_.buffer().host_accessible; }

  /// `id` is unique in this process, also over time.
  /// Device memory is staged, so its transfers are complete at return.
  base::Status start(Move move, const std::shared_ptr<Peer>& peer, const Range& range, base::Deadline deadline,
                     std::uint64_t& id) noexcept;
  /// After a timeout the transfer stays in flight, and a later wait completes it. not_found: no transfer has this id,
  /// or an earlier wait has completed it.
  base::Status wait(std::uint64_t id, base::Deadline deadline) noexcept;

  // ---- paired calls: each waits for the matching call of the peer
  base::Status send(Peer& peer, std::size_t offset, std::size_t size, base::Deadline deadline) noexcept;
  base::Status receive(Peer& peer, std::size_t offset, std::size_t size, base::Deadline deadline) noexcept;
  /// Sends `data`, which may be in any memory, through the two halves of the peer's buffer.
  base::Status send_data(Peer& peer, const void* data, std::size_t size, MemoryType type,
                         base::Deadline deadline) noexcept;
  /// `received` is the message's length. If it exceeds `capacity`, both sides return out_of_range.
  base::Status receive_data(Peer& peer, void* data, std::size_t capacity, MemoryType type, std::size_t& received,
                            base::Deadline deadline) noexcept;

 private:
  struct Started {
    std::shared_ptr<Peer> peer;
    rma::Endpoint::Transfer transfer;
  };

  base::Status check(const Peer& peer, std::size_t local, std::size_t size) const noexcept;
  base::Status start_one(Move move, int number, const Range& range, rma::Endpoint::Transfer& transfer) noexcept;
  base::Status move_staged(Move move, const Peer& peer, const Range& range, base::Deadline deadline) noexcept;
  base::Status move_relayed(Move move, Peer& peer, const Range& range, base::Deadline deadline) noexcept;
  base::Status move_pieces(Move move, const Peer& peer, const Range& range, const RelayGrant& grant,
                           memory::StageLease& stage, base::Deadline deadline) noexcept;
  base::Status wait_for_halves(base::Deadline deadline) noexcept;
  base::Status finish(rma::Endpoint::Transfer& transfer, base::Deadline deadline) noexcept;
  base::Status signal(const Peer& peer, std::size_t first, std::span<const std::uint64_t> values,
                      base::Deadline deadline) noexcept;
  template <typename Condition>
  base::Status wait_for(const Peer& peer, base::Deadline deadline, Condition&& condition) const noexcept;
  base::Status send_chunks(Peer& peer, const std::byte* data, std::size_t size, std::size_t half, bool to_relay,
                           base::Deadline deadline);
  base::Status drain_chunks(Peer& peer, std::byte* data, std::size_t size, std::size_t half, base::Deadline deadline);

  Peers& peers_;
  rma::Endpoint& endpoint_;
  std::mutex started_lock_;
  std::map<std::uint64_t, Started> started_;  // under started_lock_
  Halves& halves_;
  std::optional<DeviceRelay> relay_;  // last: its thread uses peers_
};

}  // namespace hmc::compat
