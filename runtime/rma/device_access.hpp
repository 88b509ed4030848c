// DeviceAccess: the device side of one window. KernelAccess: the access of kernels to its parts. runtime/device
// implements both. Description: the properties of a part that its peers need.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::memory {
class Kernels;
}

namespace hmc::rma {

/// The properties of a rank's part, which all ranks exchange when they create a window.
struct Description {
  Description() { failure.code = Code::success; }
  ErrorDetail failure;  // code success: none
  std::uint64_t bytes = 0;
  std::uint64_t next_id = 0;
  std::uint64_t rebound = 0;  // WindowCore::lineage() of the window that this rank rebinds; 0: it creates one
  std::vector<std::pair<std::string, base::Bytes>> keys;  // of the part, by the name of the wire
  bool has_device_atomics = false;  // this rank reaches a peer by a wire whose atomics aren't atomic with the CPU's
  base::Bytes device;               // a DeviceOffer if the part is device memory
  std::uint64_t share = 0;          // number of the round that passes descriptors; a node's first rank sets it
  std::vector<int> helpers;         // in the second exchange: world ranks whose agents this rank needs
};

/// Whether kernels of this rank's device can access all parts of a window, and how. One thread at a time.
class KernelAccess {
 public:
  KernelAccess(const KernelAccess&) = delete;
  KernelAccess& operator=(const KernelAccess&) = delete;
  virtual ~KernelAccess() = default;

  /// Empty if every part is device memory of one vendor, is mapped in this process, and kernels on this rank's device
  /// can access it. Otherwise the reason.
  const std::string& why_not() const noexcept { return why_not_; }
  /// The address of a rank's part for kernels.
  std::byte* part(int rank) const noexcept { return parts_[static_cast<std::size_t>(rank)]; }
  int device() const noexcept { return device_; }
  const memory::Kernels& kernels() const noexcept { return *kernels_; }

  /// outs[j][i] = ins[0][i] op ins[1][i] ..., with the same bits as collectives/reduce. Returns at completion. At most
  /// most_inputs inputs and outputs each; addresses are multiples of the element size.
  virtual base::Status reduce(std::span<const void* const> ins, std::span<void* const> outs, std::size_t count,
                              DType type, Op op) noexcept = 0;
  static constexpr std::size_t most_inputs = 64;

 protected:
  KernelAccess() = default;

  std::string why_not_;
  int device_ = 0;
  const memory::Kernels* kernels_ = nullptr;
  std::vector<std::byte*> parts_;
};

/// WindowCore::devices() creates it if a part of the window is device memory, or at the first call that needs a device.
/// The window outlives it. One thread at a time, as for the window. Verbs throw Error; WindowCore has checked their
/// arguments.
class DeviceAccess {
 public:
  virtual ~DeviceAccess() = default;

  // ---- while the window opens
  /// Called if this rank's part is device memory. Returns the region that wires register instead. Throws Error.
  virtual transport::Region adopt(std::shared_ptr<memory::Allocation> part) = 0;
  /// The encoded DeviceOffer of this rank's part, from which peers map it. Only after adopt().
  virtual base::Bytes offer() const = 0;
  /// Collective. For each peer whose part is device memory: sets `on_device`, and replaces its channel in `peers`. The
  /// old channel is removed from `channels`. Returns the world ranks whose agents this rank needs. Throws Error.
  virtual std::vector<int> open(std::span<const Description> ranks, WindowPeers& peers,
                                std::vector<std::unique_ptr<transport::Channel>>& channels,
                                base::Deadline deadline) = 0;
  /// Called after all peers have tried to map this rank's part. `clients`: the world ranks that need this rank's agent.
  /// Throws Error.
  virtual void serve(std::span<const int> clients) = 0;

  // ---- verbs to a peer whose part is device memory; its channel implements the other verbs
  virtual Request put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) = 0;
  virtual Request get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) = 0;
  virtual void put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) = 0;
  virtual void get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) = 0;
  /// Completes the copies to or from `rank` (-1: all) that put_nb and get_nb have started.
  virtual void flush(const char* operation, int rank, Timeout timeout) = 0;
  /// The first call measures a staged path.
  virtual Path path(int rank) = 0;

  // ---- waits for words of this rank's part, which is device memory
  virtual std::uint64_t wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) = 0;
  virtual bool test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) = 0;

  // ---- the local side is device memory
  /// Copies to and from a peer's mapped host memory.
  virtual void copy_in(const char* operation, const WindowPeer& peer, std::uint64_t offset, const void* source,
                       std::size_t bytes) = 0;
  virtual void copy_out(const char* operation, const WindowPeer& peer, std::uint64_t offset, void* destination,
                        std::size_t bytes) = 0;
  /// put and get between device memory and a peer's host memory, in pieces staged through pinned host memory.
  virtual void put_staged(const char* operation, int rank, std::uint64_t offset, const void* source,
                          std::size_t bytes) = 0;
  virtual void get_staged(const char* operation, int rank, std::uint64_t offset, void* destination,
                          std::size_t bytes) = 0;

  /// The rank's part in this process, if it is device memory that is mapped here, otherwise null.
  virtual const memory::Allocation* mapping(int rank) const noexcept = 0;
  /// Staging memory for copy(): two halves of `bounce_half` bytes, pageable, freed with the window.
  static constexpr std::size_t bounce_half = std::size_t{1} << 20;
  virtual std::byte* bounce_buffer() = 0;

  // ---- kernels and streams
  virtual void put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes) = 0;
  /// Determined at the first call.
  virtual KernelAccess& kernel_access() = 0;
  virtual DeviceHandle device_handle(MemoryType type, int device) = 0;
  /// Collective. Allocates 64 KiB of host memory per rank in addition to its part.
  virtual void open_context(TeamCore& team) = 0;
  virtual WindowCore& context(const char* operation) = 0;

  // ---- while the window closes, in this order; then the destructor
  /// Releases all device handles.
  virtual void drop_handles() noexcept = 0;
  /// Collective if the window has a context.
  virtual void close_context() = 0;
  /// Destroys the device channels and their mappings.
  virtual void unmap() noexcept = 0;
};

}  // namespace hmc::rma
