// DevicePart: this rank's part of a window, if peers can't map it as a host segment.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/fields.hpp"
#include "runtime/device/staged_channel.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/rma/device_access.hpp"

namespace hmc::device {

/// Sent to all peers: the handles with which they map a rank's device memory.
struct DeviceOffer {
  struct Ticket {
    memory::SharingKind kind{};
    std::string why_not;  ///< empty: `ticket` is valid
    base::Bytes ticket;
    static constexpr auto fields = std::tuple(&Ticket::kind, &Ticket::why_not, &Ticket::ticket);
  };
  MemoryType type = MemoryType::DEFAULT;
  int device = 0;
  std::uint64_t probe = 0;        ///< stored at the memory's start while the window is created
  std::uint32_t probe_bytes = 0;  ///< bytes of `probe` that fit into the memory
  std::vector<Ticket> tickets;

  static constexpr auto fields = std::tuple(&DeviceOffer::type, &DeviceOffer::device, &DeviceOffer::probe,
                                            &DeviceOffer::probe_bytes, &DeviceOffer::tickets);
  static DeviceOffer decode(base::ByteView bytes, int rank);
};

/// The state of a wait for a word of this rank's part.
struct DeviceWatch {
  std::uint64_t changed = 0;
  std::int64_t again_ns = 0;  ///< kernels' stores don't change the count, so the word is read again at this time
};

/// Peers test their mappings with the probe in the first bytes of the memory. The bytes hold the probe from the
/// constructor to give_back(), or to the destructor if the creation fails. One thread, in addition to the agent's.
class DevicePart {
 public:
  /// Throws Error, which names the failed driver call.
  DevicePart(const rma::Fabric& fabric, std::shared_ptr<memory::Allocation> allocation);
  ~DevicePart();
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

  const DeviceOffer& offer() const noexcept { return offer_; }
  const base::UniqueFd& descriptor() const noexcept { return descriptor_; }
  /// The region that wires register in place of the device memory.
  transport::Region control_region() const;
  std::byte* control() const noexcept { return control_->base(); }
  const DeviceMemory& memory() const noexcept { return memory_; }

  /// Restores the first bytes, after all peers have tried to map the memory. Throws Error.
  void give_back();
  /// Called if a peer needs the agent. `by_far`: at least one such peer is on another node. Returns a description of
  /// the agent's buffers. Throws Error.
  std::string start_agent(bool by_far);

  /// Reads a word of the part. Returns false if no read is due yet, or a peer holds the word lock.
  bool look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word, base::Status& status) const noexcept;

 private:
  const rma::Fabric& fabric_;
  DeviceMemory memory_;
  std::shared_ptr<base::Segment> control_;
  DeviceOffer offer_;
  base::UniqueFd descriptor_;  // for the ticket of kind vmm_fd
  std::array<std::byte, 8> lent_{};
  bool is_lent_ = false;
  std::shared_ptr<void> pinned_;  // pins the Control's buffers while the agent exists
  std::optional<Agent> agent_;
};

}  // namespace hmc::device
