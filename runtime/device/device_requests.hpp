// DeviceRequests: tickets for a window's asynchronous puts and gets that devices execute.
#pragma once

#include "runtime/device/mapped_channel.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::rma {

/// A ticket consists of the channel's index and the copy's number in that channel. One thread at a time, as for the
/// window.
class DeviceRequests final : public progress::TicketSource {
 public:
  /// `channels`: by team rank, null if the peer isn't mapped. They and the fabric outlive this. Throws std::bad_alloc.
  DeviceRequests(Fabric& fabric, std::vector<MappedChannel*> channels);
  DeviceRequests(const DeviceRequests&) = delete;
  DeviceRequests& operator=(const DeviceRequests&) = delete;
  ~DeviceRequests() override;

  int index() const noexcept { return index_; }  ///< used in place of a wire's index
  std::uint64_t ticket(int rank, std::uint64_t number) const noexcept {
    return static_cast<std::uint64_t>(rank) << number_bits | number;
  }
  /// Waits until the started copies to or from `rank` (-1: all) have ended.
  base::Status flush(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept;

  base::Status test(std::uint64_t ticket) noexcept override;
  void expired(std::uint64_t) noexcept override {}
  std::uint64_t moves() const noexcept override { return 0; }
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  bool is_transfer() const noexcept override { return true; }
  /// A device's copy can't be cancelled, so this waits for the channel's copies in flight.
  void abandon(std::uint64_t ticket) noexcept override;
  base::Status complete() noexcept override;

 private:
  static constexpr int number_bits = 40;
  MappedChannel* channel(std::uint64_t ticket) const noexcept { return channels_[ticket >> number_bits]; }

  Fabric& fabric_;
  std::vector<MappedChannel*> channels_;
  int index_;
};

}  // namespace hmc::rma
