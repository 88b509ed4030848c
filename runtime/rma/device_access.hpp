// DeviceAccess: the device side of one window. runtime/device implements it; the job sets the factory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/rma/core.hpp"

namespace hmc::rma {

/// State of a wait for a word of this rank's own part.
struct DeviceWatch {
  std::uint64_t changed = 0;
  std::int64_t again_ns = 0;  ///< stores by kernels change no count, so the word is read again at this time
};

/// Created by Core when a part of the window is device memory, or at the first call of device_handle() or
/// kernel_reach(). One thread at a time, as for the window.
class DeviceAccess {
 public:
  virtual ~DeviceAccess() = default;

  // ---- while the window opens
  /// This rank's part is device memory. Returns the region that wires register in its place. Throws Error.
  virtual transport::Region adopt(std::shared_ptr<memory::Allocation> part) = 0;
  /// The encoded DeviceOffer of this rank's part, from which peers map it. Only after adopt().
  virtual base::Bytes offer() const = 0;
  /// Collective. For each peer whose part is device memory: sets `on_device`, and replaces its channel in `peers`. The
  /// old channel leaves `channels`. Returns the world ranks whose agents this rank needs. Throws Error.
  virtual std::vector<int> open(std::span<const Description> ranks, Peers& peers,
                                std::vector<std::unique_ptr<transport::Channel>>& channels,
                                base::Deadline deadline) = 0;
  /// All peers have tried to map this rank's part. `clients`: world ranks that need this rank's agent. Throws Error.
  virtual void serve(std::span<const int> clients) = 0;

  // ---- verbs
  /// Reads a word of this rank's part. False: no read is due yet, or a peer holds the word lock.
  virtual bool look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word,
                    base::Status& status) const noexcept = 0;
  /// The request of the copy `number` that DeviceChannel::begin_put or begin_get started: the source's index, used in
  /// place of a wire's, and the ticket.
  struct Pending {
    int source = 0;
    std::uint64_t ticket = 0;
  };
  virtual Pending request(int rank, std::uint64_t number) const noexcept = 0;
  /// Waits for the copies that were started to or from `rank` (-1: all).
  virtual base::Status flush(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept = 0;
  /// Measures a staged path at the first call.
  virtual Path path(int rank) = 0;

  // ---- kernels
  virtual KernelReach& kernel_reach() = 0;
  /// `context`: null if the window has none. Throws Error.
  virtual DeviceHandle handle(const memory::Provider& provider, int device, const Core* context) = 0;

  // ---- while the window closes, in this order; then the destructor
  /// Releases all device handles.
  virtual void drop_handles() noexcept = 0;
  /// Destroys the device channels and their mappings.
  virtual void unmap() noexcept = 0;
};

}  // namespace hmc::rma
