// MappedChannel: the channel to device memory of this rank or of a rank on this node, mapped in this process. The
// provider copies. Verbs return at remote completion; an asynchronous copy is complete when look() returns ok for its
// number.
#pragma once

#include "runtime/device/control.hpp"
#include "runtime/device/copy_queue.hpp"
#include "runtime/device/device_channel.hpp"

namespace hmc::rma {

class MappedChannel final : public DeviceChannel {
 public:
  /// `control`: the peer's Control, mapped in this process. `way`: the channel that holds this mapping. The fabric
  /// outlives this.
  MappedChannel(Fabric& fabric, int peer, DeviceMemory memory, std::byte* control,
                std::unique_ptr<transport::Channel> way) noexcept
      : fabric_(fabric),
        peer_(peer),
        memory_(std::move(memory)),
        head_(head_of(control)),
        way_(std::move(way)),
        queue_(*memory_.owner().provider, memory_.owner().info.device) {}

  /// Sets `number` to that of the started copy; 0: it is complete. Both buffers are in use while look() returns
  /// in_progress.
  base::Status begin_put(std::uint64_t offset, const void* source, std::size_t bytes,
                         std::uint64_t& number) noexcept override;
  base::Status begin_get(std::uint64_t offset, void* destination, std::size_t bytes,
                         std::uint64_t& number) noexcept override;
  /// Returns in_progress, ok, or the copy's failure.
  base::Status look(std::uint64_t number) noexcept;
  /// The number of the last started copy.
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
  /// Called after a write: causes waits for words of the peer's memory to read them again. Returns `status`.
  base::Status changed(const base::Status& status) noexcept;
  /// Starts an asynchronous copy. Returns false if that isn't possible; the caller then copies synchronously. Reasons:
  /// the host can access the memory, the other side is another vendor's, the ranges overlap, or the driver doesn't
  /// support it.
  bool begins(const memory::Transfer& transfer, const memory::Owner& local, base::Status& status,
              std::uint64_t& number) noexcept;

  Fabric& fabric_;
  int peer_;
  DeviceMemory memory_;
  ControlHead& head_;
  std::unique_ptr<transport::Channel> way_;
  CopyQueue queue_;
};

}  // namespace hmc::rma
