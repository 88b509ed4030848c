// MappedChannel: the channel to device memory of this rank or of a rank on this node, mapped in this process. The
// provider copies. Verbs return at remote completion; an asynchronous copy is complete when look() returns ok for its
// number. CopyQueue: its asynchronous copies, which the device executes in order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/control.hpp"
#include "runtime/device/device_channel.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::device {

/// Owns a stream, and an event per copy in flight. If all events are in use, start() waits for the oldest copy. One
/// thread at a time. The destructor waits for copies in flight.
class CopyQueue {
 public:
  CopyQueue(const memory::Provider& provider, int device) noexcept : provider_(provider), device_(device) {}
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  /// `number` counts from 1. If the start fails, the copy isn't in flight.
  base::Status start(const memory::Transfer& transfer, std::uint64_t& number) noexcept;
  /// Returns in_progress, ok, or the failure of that copy.
  base::Status look(std::uint64_t number) noexcept;
  /// Waits until all copies have ended.
  base::Status wait() noexcept;
  /// Returns and clears a failure that no caller has seen: start() waited for that copy to reuse its event.
  base::Status take_unseen() noexcept { return std::exchange(unseen_, {}); }
  std::uint64_t begun() const noexcept { return begun_; }
  std::uint64_t over() const noexcept { return over_; }

 private:
  static constexpr std::uint64_t room = 32;
  base::Status open() noexcept;
  base::Status over_until(std::uint64_t number, const base::Status& status) noexcept;
  memory::Event& event(std::uint64_t number) const noexcept { return *events_[number % room]; }

  const memory::Provider& provider_;
  int device_;
  std::unique_ptr<memory::Stream> stream_;  // created with the first copy
  std::array<std::unique_ptr<memory::Event>, room> events_;
  std::uint64_t begun_ = 0;
  std::uint64_t over_ = 0;
  // The outcome of the copies after a failed copy in the stream is unknown. Therefore all copies from the first failure
  // to the last one count as failed.
  std::uint64_t first_failed_ = 0;
  std::uint64_t last_failed_ = 0;
  base::Status failure_;
  base::Status unseen_;
  std::string open_failure_;  // holds the text that a Status points to
};

class MappedChannel final : public DeviceChannel {
 public:
  /// `control`: the peer's Control, mapped in this process. `way`: the channel that holds this mapping. The fabric
  /// outlives this.
  MappedChannel(rma::Fabric& fabric, int peer, DeviceMemory memory, std::byte* control,
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
  base::Status atomic(const transport::Atomic& atomic, std::uint64_t offset, void* result,
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

  rma::Fabric& fabric_;
  int peer_;
  DeviceMemory memory_;
  ControlHead& head_;
  std::unique_ptr<transport::Channel> way_;
  CopyQueue queue_;
};

}  // namespace hmc::device
