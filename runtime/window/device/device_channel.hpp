// DeviceChannel: a way into memory that the host may be unable to reach. Its local side may be any memory
// of the process, and every verb of a Channel is over when it returns: its ticket is always `done`.
#pragma once

#include <hmc/window.hpp>

#include "runtime/transport/wire.hpp"
#include "runtime/window/device/device_memory.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

class MappedChannel;

class DeviceChannel : public transport::Channel {
 public:
  /// The peer's memory where this process has it mapped; null where somebody else copies.
  virtual const DeviceMemory* mapped() const noexcept { return nullptr; }
  /// The same as itself: it can begin copies too.
  virtual MappedChannel* as_mapped() noexcept { return nullptr; }
  virtual base::Status put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept = 0;
  virtual base::Status get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept = 0;
};

}  // namespace hmc::window
