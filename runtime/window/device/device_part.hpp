// DevicePart: this rank's part of a window where it isn't host memory that peers map as it is.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/sharing.hpp"
#include "runtime/window/device/agent.hpp"
#include "runtime/window/device_access.hpp"

namespace hmc::window {

/// What a rank tells its peers of its device memory.
struct DeviceOffer {
  struct Ticket {
    memory::SharingKind kind{};
    std::string why_not;  ///< empty: `ticket` is one
    base::Bytes ticket;
  };
  MemoryType type = MemoryType::DEFAULT;
  int device = 0;
  std::uint64_t probe = 0;        ///< lies at the memory's start while the window is made,
  std::uint32_t probe_bytes = 0;  ///< as far as it fits
  std::vector<Ticket> tickets;

  base::Bytes encode() const;
  static DeviceOffer decode(base::ByteView bytes, int rank);
};

/// While a window is made its first bytes are lent to the trial of mappings: from the constructor to
/// give_back(), or to the destructor where it doesn't come so far. One thread, but for the agent's.
class DevicePart {
 public:
  /// Throws Error, naming the driver's call that failed.
  DevicePart(const Fabric& fabric, std::shared_ptr<memory::Allocation> allocation);
  ~DevicePart();
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

  const DeviceOffer& offer() const noexcept { return offer_; }
  const base::UniqueFd& descriptor() const noexcept { return descriptor_; }
  /// The region that wires register in place of the memory.
  transport::Region control_region() const;
  std::byte* control() const noexcept { return control_->base(); }
  const DeviceMemory& memory() const noexcept { return memory_; }

  /// All peers have tried. Throws Error.
  void give_back();
  /// Some peer can't do without; `by_far`: one of another node. Returns what its bytes go through. Throws Error.
  std::string start_agent(bool by_far);

  /// As DeviceAccess::look.
  bool look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word, base::Status& status) const noexcept;

 private:
  void make_tickets();
  void lend_probe();

  const Fabric& fabric_;
  DeviceMemory memory_;
  std::shared_ptr<base::Segment> control_;
  DeviceOffer offer_;
  base::UniqueFd descriptor_;  // of the ticket that needs one
  std::array<std::byte, 8> lent_{};
  bool is_lent_ = false;
  std::shared_ptr<void> pinned_;  // the Control's buffers, while an agent copies from and to them
  std::optional<Agent> agent_;
};

}  // namespace hmc::window
