// DeviceRelay: lets peers put to and get from a buffer in device memory, through host memory that both sides access.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "compat/hmc/control_words.hpp"
#include "compat/hmc/peers.hpp"
#include "runtime/base/status.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::compat {

/// RelayLayout describes the memory. A transfer:
///
///   caller   relay_offset, relay_size, relay_call    asks for a slot
///   owner    relay_grant                             a slot, when one is free
///   put      the caller puts piece p into half p % 2 of the slot, then relay_pieces = p + 1; the owner copies it to
///   the
///            device, then relay_done = p + 1. A half is used again when its last piece is done.
///   get      the owner copies piece p into half p % 2, then relay_done = p + 1; the caller gets it, then
///            relay_pieces = p + 1.
///   failure  the caller ends its transfers, then relay_end = the call's number
///
/// So the device's copy of one piece and the wire's transfer of the next overlap. The slot is free after the last
/// piece, or after relay_end.
///
/// One thread serves all peers and never waits for one. It polls their words, and sleeps between polls while nothing
/// arrives.
class DeviceRelay {
 public:
  /// Starts the thread. `peers` must outlive this object.
  explicit DeviceRelay(Peers& peers);
  ~DeviceRelay();
  DeviceRelay(const DeviceRelay&) = delete;
  DeviceRelay& operator=(const DeviceRelay&) = delete;

 private:
  /// What this side knows of one peer's transfers.
  struct Caller {
    bool active = false;
    RelayCall call;
    std::size_t offset = 0, size = 0;
    std::uint64_t slot = 0;
    std::uint64_t done = 0;           // pieces
    bool failed = false;              // the slot is kept until relay_end
    rma::Endpoint::Transfer storing;  // of the last word
  };

  void run() noexcept;
  bool serve_all();
  bool serve(const Peer& peer, Caller& caller);
  bool accept(const Peer& peer, Caller& caller);
  base::Status copy(const Caller& caller) noexcept;
  void store(const Peer& peer, Caller& caller, std::size_t word, std::uint64_t value) noexcept;
  std::optional<std::uint64_t> take_slot();

  Peers& peers_;
  rma::Endpoint& endpoint_;
  std::map<std::shared_ptr<Peer>, Caller> callers_;  // only on the thread
  /// Only on the thread; the longest free is the first. A slot of a peer that has ended has a time before which it
  /// isn't used: a thread of that peer may still copy into it.
  struct FreeSlot {
    std::uint64_t number;
    base::Deadline usable;
  };
  std::deque<FreeSlot> free_slots_;
  std::atomic<bool> stopping_{false};  // relaxed: only the thread's end depends on it
  std::thread thread_;                 // last: uses the other members
};

}  // namespace hmc::compat
