// Access of kernels to a window's parts. KernelReach: of kernels of this rank's device to all parts. DeviceView: the
// table that a DeviceHandle points to. Registration: registered host memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/device_handle.hpp>
#include <hmc/types.hpp>

#include "runtime/device/device_channel.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/rma/device_access.hpp"

namespace hmc::device {

/// The channels to a window's parts, by rank; null: the part is host memory.
using DeviceChannels = std::vector<std::unique_ptr<DeviceChannel>>;

/// Created once per window, at the first use. The window outlives it.
class KernelReach final : public rma::KernelAccess {
 public:
  KernelReach(const rma::WindowCore& core, const DeviceChannels& channels);
  ~KernelReach() override;
  base::Status reduce(std::span<const void* const> ins, std::span<void* const> outs, std::size_t count, DType type,
                      Op op) noexcept override;

 private:
  std::string find(const rma::WindowCore& core, const DeviceChannels& channels);

  std::unique_ptr<memory::Stream> stream_;
};

class NodeRange;

/// Host memory that is registered with a device of this process during this object's lifetime. One thread at a time.
class Registration {
 public:
  Registration() = default;
  /// Registers all pages of the range. If other code has already registered the memory, seen() is also valid.
  Registration(const memory::Provider& provider, int device, std::byte* address, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  ~Registration();
  /// The address in the device's address space; null if the device can't access it.
  std::byte* seen() const noexcept { return seen_; }

 private:
  const memory::Provider* provider_ = nullptr;
  int device_ = 0;
  std::byte* registered_ = nullptr;
  std::byte* seen_ = nullptr;
};

class DeviceView {
 public:
  /// Throws Error. `range`, `context`: null if there is none.
  DeviceView(const rma::WindowCore& core, const DeviceChannels& channels, const NodeRange* range,
             const rma::WindowCore* context, const memory::Provider& provider, int device);
  DeviceHandle handle() const noexcept { return handle_; }
  const memory::Provider& provider() const noexcept { return provider_; }
  int device() const noexcept { return device_; }
  bool has_context() const noexcept { return has_context_; }

 private:
  std::byte* reach(const rma::WindowPeer& peer, const DeviceChannel* channel);
  /// The parts' addresses, indexed by rank: in the node's range if all parts are in it, otherwise in each part's own
  /// mapping.
  std::vector<std::byte*> reach_all(const rma::WindowCore& core, const DeviceChannels& channels,
                                    const NodeRange* range);

  const memory::Provider& provider_;
  int device_;
  bool has_context_;
  std::vector<Registration> registered_;
  std::shared_ptr<memory::Allocation> table_;
  DeviceHandle handle_;
};

}  // namespace hmc::device
