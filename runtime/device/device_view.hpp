// DeviceView: the table that a DeviceHandle points to, and the registrations that keep its addresses valid.
#pragma once

#include <memory>
#include <vector>

#include <hmc/device_handle.hpp>

#include "runtime/memory/provider.hpp"

namespace hmc::rma {

class WindowCore;
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
  DeviceView(const WindowCore& core, const NodeRange* range, const WindowCore* context,
             const memory::Provider& provider, int device);
  DeviceHandle handle() const noexcept { return handle_; }
  const memory::Provider& provider() const noexcept { return provider_; }
  int device() const noexcept { return device_; }
  bool has_context() const noexcept { return has_context_; }

 private:
  std::byte* reach(const WindowCore& core, int rank);
  /// The parts' addresses, indexed by rank: in the node's range if all parts are in it, otherwise in each part's own
  /// mapping.
  std::vector<std::byte*> reach_all(const WindowCore& core, const NodeRange* range);

  const memory::Provider& provider_;
  int device_;
  bool has_context_;
  std::vector<Registration> registered_;
  std::shared_ptr<memory::Allocation> table_;
  DeviceHandle handle_;
};

}  // namespace hmc::rma
