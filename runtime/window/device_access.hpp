// DeviceAccess: the device side of one window. runtime/window/device implements it; the job registers the factory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/window/core.hpp"

namespace hmc::window {

/// State of a wait for a word of this rank's own part.
struct DeviceWatch {
  std::uint64_t changed = 0;
  std::int64_t again_ns = 0;  ///< stores by kernels change no count, so the word is read again at this time
};

/// Made by Core when a part of the window is device memory, or when device_handle() or kernel_reach() is first called.
/// One thread at a time: the window's.
class DeviceAccess {
 public:
  virtual ~DeviceAccess() = default;

  // ---- while the window opens
  /// This rank's part is device memory. Returns the region that wires register in its place. Throws Error.
  virtual transport::Region adopt(std::shared_ptr<memory::Allocation> part) = 0;
  /// What peers need to reach this rank's part. Only after adopt().
  virtual base::Bytes offer() const = 0;
  /// Collective. For each peer whose part is device memory: sets `on_device`, and replaces its channel in `peers`. The
  /// old channel leaves `channels`. Returns the world ranks whose agents this rank needs. Throws Error.
  virtual std::vector<int> open(std::span<const Description> ranks, Peers& peers,
                                std::vector<std::unique_ptr<transport::Channel>>& channels,
                                base::Deadline deadline) = 0;
  /// All peers have tried to map this rank's part. `clients`: world ranks that need this rank's agent. Throws Error.
  virtual void serve(std::span<const int> clients) = 0;

  // ---- verbs
  /// Reads a word of this rank's part. False: not due yet, or a peer holds the word's lock.
  virtual bool look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word,
                    base::Status& status) const noexcept = 0;
  /// The request of copy `number` that DeviceChannel::begin_put or begin_get started: its index in place of a wire's,
  /// and its ticket there.
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
  /// Handles end.
  virtual void drop_handles() noexcept = 0;
  /// Channels to devices and their mappings end.
  virtual void unmap() noexcept = 0;
};

}  // namespace hmc::window
