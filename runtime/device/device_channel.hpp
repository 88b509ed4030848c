// DeviceChannel: the channel to a peer whose part is device memory. The local side may be any memory of the process.
// Every verb of Channel returns at completion, so its ticket is always `done`.
#pragma once

#include <hmc/window.hpp>

#include "runtime/device/device_memory.hpp"
#include "runtime/rma/fabric.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::device {

class DeviceChannel : public transport::Channel {
 public:
  /// The peer's memory if it is mapped in this process; null if the peer's agent copies.
  virtual const DeviceMemory* mapped() const noexcept { return nullptr; }
  /// Starts a copy. `number` identifies the copy on this channel; 0: the copy is complete.
  virtual base::Status begin_put(std::uint64_t offset, const void* source, std::size_t bytes,
                                 std::uint64_t& number) noexcept {
    transport::Ticket ticket = transport::done;
    number = 0;
    return put(offset, source, bytes, ticket);
  }
  virtual base::Status begin_get(std::uint64_t offset, void* destination, std::size_t bytes,
                                 std::uint64_t& number) noexcept {
    transport::Ticket ticket = transport::done;
    number = 0;
    return get(offset, destination, bytes, ticket);
  }
  virtual base::Status put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept = 0;
  virtual base::Status get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept = 0;
};

}  // namespace hmc::device
