// NodeRange: addresses that this rank has reserved once for the parts of all ranks of its node, so that kernels find a
// part by base + place * stride.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/window/device/device_part.hpp"
#include "runtime/window/device_memory.hpp"

namespace hmc::window {

/// Physical memory of one vendor's devices, shared by descriptor, lies in it; what is anything else leaves its place
/// empty. This rank's own part, and those of ranks of its process, are mapped there a second time. Goes before the
/// parts' owners free them. One thread at a time.
class NodeRange {
 public:
  struct Part {
    int rank = -1;                       ///< of the team
    const DeviceOffer* offer = nullptr;  ///< null: not a device's memory
    std::uint64_t bytes = 0;
    bool is_mine = false;
  };
  NodeRange() = default;
  /// `local`: all ranks of this node, in the team's order. Reserves where two of them or more fit in; never throws for
  /// what a driver refuses.
  explicit NodeRange(std::span<const Part> local);

  /// The rank's part has a place here.
  bool serves(int rank) const noexcept;
  /// Maps it. `exported`: its ticket by descriptor. Throws Error.
  DeviceMemory put(int rank, const memory::Exported& exported);
  void drop(int rank) noexcept;
  /// The rank's part, where it lies in the range; else null.
  memory::Allocation* at(int rank) const noexcept;
  std::size_t place(int rank) const noexcept;
  /// Why there is no range though parts would fit in; empty: there is one, or nothing for it.
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  struct Place {
    int rank = -1;
    int device = 0;
    bool fits = false;
    std::shared_ptr<memory::Allocation> part;
  };
  std::vector<Place> places_;
  const memory::Provider* provider_ = nullptr;
  std::shared_ptr<memory::VmmRange> range_;
  std::string why_not_;
};

/// The ticket of that kind; null where the offer has none.
const DeviceOffer::Ticket* ticket_of(const DeviceOffer& offer, memory::SharingKind kind) noexcept;

}  // namespace hmc::window
