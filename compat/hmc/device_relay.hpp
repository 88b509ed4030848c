// DeviceRelay: lets peers put to and get from a buffer in device memory, through host memory that both sides access.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

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
///            the device, then relay_done = p + 1. A half is used again when its last piece is done.
///   get      the owner copies piece p into half p % 2, then relay_done = p + 1; the caller gets it, then
///            relay_pieces = p + 1.
///
/// Pieces are numbered over all calls of one caller. The slot is free again after the call's last piece. So the copy of
/// one piece and the wire's transfer of the next overlap.
///
/// One thread serves all peers. It polls their words, and sleeps between polls while nothing arrives.
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
    std::uint64_t begin = 0, done = 0, end = 0;  // pieces
  };

  void run() noexcept;
  bool serve_all();
  bool serve(const Peer& peer, Caller& caller);
  bool accept(const Peer& peer, Caller& caller);
  base::Status copy(const Caller& caller) noexcept;
  void store(const Peer& peer, std::size_t word, std::uint64_t value) noexcept;
  void free_slot(std::uint64_t slot) { free_slots_.push_back(slot); }

  Peers& peers_;
  rma::Endpoint& endpoint_;
  std::map<std::shared_ptr<Peer>, Caller> callers_;  // only on the thread
  std::vector<std::uint64_t> free_slots_;            // only on the thread; the longest free is the first
  std::atomic<bool> stopping_{false};                // relaxed: only the thread's end depends on it
  std::thread thread_;                               // last: uses the other members
};

}  // namespace hmc::compat
