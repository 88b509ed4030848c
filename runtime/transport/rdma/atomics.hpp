// Atomics: those that the device has, and all others as loops of compare-swaps.
#pragma once

#include <cstdint>

#include "runtime/transport/rdma/requests.hpp"

namespace hmc::transport::rdma {

/// Threads: the wire's owner.
class Atomics final : public Requests::LoopUser {
 public:
  explicit Atomics(Requests& requests) noexcept : requests_(requests) { requests.set_loop_user(*this); }

  /// `address` is the address of the word at the peer. The transfer is abandoned when `channel` ends.
  base::Status start(Peer& peer, const Atomic& atomic, std::uint64_t address, std::uint32_t key, const void* channel,
                     void* result, Ticket& ticket) noexcept;
  void continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept override;
  /// Loops in flight to all peers.
  std::uint32_t loops() const noexcept { return loops_; }

 private:
  void post_loop(Peer& peer, Ticket ticket) noexcept;

  Requests& requests_;
  std::uint32_t loops_ = 0;
};

}  // namespace hmc::transport::rdma
