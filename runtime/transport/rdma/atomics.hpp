// Atomics: those that the device has, and all others as loops of compare-swaps.
#pragma once

#include <cstdint>

#include "runtime/transport/rdma/requests.hpp"

namespace hmc::transport::rdma {

/// Under the wire's lock.
class Atomics final : public Requests::LoopUser {
 public:
  explicit Atomics(Requests& requests) noexcept : requests_(requests) { requests.set_loop_user(*this); }

  /// `address` is the address of the word at the peer. The transfer is abandoned when `channel` ends.
  base::Status start(Peer& peer, const Atomic& atomic, std::uint64_t address, std::uint32_t key, const void* channel,
                     void* result, Ticket& ticket) noexcept;
  void continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept override;

 private:
  /// The loops in flight on one word. A queue pair executes requests in order, so each loop's first compare-swap
  /// expects the value that the previous loop wants to store: they all succeed unless another rank changes the word. A
  /// loop that fails begins a new chain, and the other loops of the broken one continue that.
  struct Chain {
    int peer = -1;
    std::uint64_t word = 0;
    std::uint64_t value = 0;  ///< of the word when all compare-swaps of the chain have succeeded
    std::uint64_t number = 0;
  };
  void post_loop(Peer& peer, Ticket ticket) noexcept;

  Requests& requests_;
  Chain chain_;  // of the last loop
};

}  // namespace hmc::transport::rdma
