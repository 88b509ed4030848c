// DeviceView: the table that a DeviceHandle points to, and what it needs to stay good.
#pragma once

#include <memory>
#include <vector>

#include <hmc/device_handle.hpp>

#include "runtime/memory/provider.hpp"

namespace hmc::window {

class Core;
class NodeRange;

/// Host memory that a device of this process reaches, for as long as this lives. One thread at a time.
class Registration {
 public:
  Registration() = default;
  /// With all of the pages that it lies in. What was registered by somebody else is reached too.
  Registration(const memory::Provider& provider, int device, std::byte* address, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  ~Registration();
  /// As the device addresses it; null where it doesn't reach it.
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
  DeviceView(const Core& core, const NodeRange* range, const Core* context, const memory::Provider& provider,
             int device);
  DeviceHandle handle() const noexcept { return handle_; }
  const memory::Provider& provider() const noexcept { return provider_; }
  int device() const noexcept { return device_; }
  bool has_context() const noexcept { return has_context_; }

 private:
  std::byte* reach(const Core& core, int rank);
  /// In the node's range all of them, or each where it is.
  std::vector<std::byte*> reach_all(const Core& core, const NodeRange* range);

  const memory::Provider& provider_;
  int device_;
  bool has_context_;
  std::vector<Registration> registered_;
  std::shared_ptr<memory::Allocation> table_;
  DeviceHandle handle_;
};

}  // namespace hmc::window
