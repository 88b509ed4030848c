// MappedChannel: device memory of a rank of this node that this process has mapped (or that is its own):
// bytes go by the provider's copies, and have arrived when a verb returns.
#pragma once

#include "runtime/window/device/control.hpp"
#include "runtime/window/device/device_channel.hpp"

namespace hmc::window {

class MappedChannel final : public DeviceChannel {
 public:
  /// `control`: the peer's, mapped here; `way` keeps it so (null for this rank itself). The fabric outlives this.
  MappedChannel(Fabric& fabric, int peer, DeviceMemory memory, std::byte* control,
                std::unique_ptr<transport::Channel> way) noexcept
      : fabric_(fabric), peer_(peer), memory_(std::move(memory)), head_(head_of(control)), way_(std::move(way)) {}

  const DeviceMemory* mapped() const noexcept override { return &memory_; }
  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override;
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes,
                   transport::Ticket& ticket) noexcept override;
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, transport::Ticket& ticket) noexcept override;
  base::Status atomic(const transport::Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      transport::Ticket& ticket) noexcept override;
  base::Status put_rows(std::uint64_t offset, const void* source, const Strides& strides) noexcept override;
  base::Status get_rows(std::uint64_t offset, void* destination, const Strides& strides) noexcept override;

 private:
  base::Status lock() noexcept;
  /// After a change: whoever waits for it looks again.
  base::Status changed(const base::Status& status) noexcept;

  Fabric& fabric_;
  int peer_;
  DeviceMemory memory_;
  ControlHead& head_;
  std::unique_ptr<transport::Channel> way_;
};

}  // namespace hmc::window
