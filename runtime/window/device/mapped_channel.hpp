// MappedChannel: device memory of a rank of this node that this process has mapped (or that is its own):
// bytes go by the provider's copies. They have arrived when a verb returns; what was begun, when its number is over.
#pragma once

#include "runtime/window/device/control.hpp"
#include "runtime/window/device/copy_queue.hpp"
#include "runtime/window/device_channel.hpp"

namespace hmc::window {

class MappedChannel final : public DeviceChannel {
 public:
  /// `control`: the peer's, mapped here; `way` keeps it so (null for this rank itself). The fabric outlives this.
  MappedChannel(Fabric& fabric, int peer, DeviceMemory memory, std::byte* control,
                std::unique_ptr<transport::Channel> way) noexcept
      : fabric_(fabric),
        peer_(peer),
        memory_(std::move(memory)),
        head_(head_of(control)),
        way_(std::move(way)),
        queue_(*memory_.owner().provider, memory_.owner().info.device) {}

  /// `number` of the copy that was begun; 0: it is over already. Both sides stay in use until look() says so.
  base::Status begin_put(std::uint64_t offset, const void* source, std::size_t bytes,
                         std::uint64_t& number) noexcept override;
  base::Status begin_get(std::uint64_t offset, void* destination, std::size_t bytes,
                         std::uint64_t& number) noexcept override;
  /// in_progress, ok, or what went wrong.
  base::Status look(std::uint64_t number) noexcept;
  /// The last one that was begun.
  std::uint64_t begun() const noexcept { return queue_.begun(); }
  bool idle() const noexcept { return queue_.begun() == queue_.over(); }
  base::Status wait_for_begun() noexcept;
  base::Status take_unseen() noexcept { return queue_.take_unseen(); }

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
  /// False: no stream carries this copy out alone, or it overlaps.
  bool begins(const memory::Transfer& transfer, const memory::Owner& local, base::Status& status,
              std::uint64_t& number) noexcept;

  Fabric& fabric_;
  int peer_;
  DeviceMemory memory_;
  ControlHead& head_;
  std::unique_ptr<transport::Channel> way_;
  CopyQueue queue_;
};

}  // namespace hmc::window
