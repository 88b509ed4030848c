// The paths to peers' device memory. Each is selected per pair of ranks, by trial, when the window is created, and
// measured. NodeRange: one reserved address range for the parts of all ranks on this node. Kernels compute a part's
// address as base + place * stride.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device_channel.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/device_part.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::device {

/// Each rank of the node has a slot. A part is mapped into its slot if it is device memory of the range's vendor and is
/// shared by descriptor; other slots stay empty. The parts of ranks in this process are mapped a second time. Must be
/// destroyed before the owners free the parts. One thread at a time.
class NodeRange {
 public:
  struct Part {
    int rank = -1;                       ///< team rank
    const DeviceOffer* offer = nullptr;  ///< null: not device memory
    std::uint64_t bytes = 0;
    bool is_mine = false;
  };
  NodeRange() = default;
  /// `local`: the team's ranks on this node, in the team's order. Reserves the range if at least two parts are
  /// suitable. Doesn't throw if the driver fails: see why_not().
  explicit NodeRange(std::span<const Part> local);

  /// True if the range has a slot for the rank's part.
  bool serves(int rank) const noexcept;
  /// Maps the rank's part into its slot. `exported` is the part's ticket of kind vmm_fd. Throws Error.
  DeviceMemory put(int rank, const memory::Exported& exported);
  void drop(int rank) noexcept;
  /// The mapping of the rank's part in the range; null if there is none.
  memory::Allocation* at(int rank) const noexcept;
  std::size_t place(int rank) const noexcept;
  /// The reason why the range couldn't be reserved. Empty if it is reserved, or if fewer than two parts are suitable.
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

/// The offer's valid ticket of that kind; null if it has none.
const DeviceOffer::Ticket* ticket_of(const DeviceOffer& offer, memory::SharingKind kind) noexcept;

class MappedChannel;

struct DevicePath {
  std::unique_ptr<DeviceChannel> channel;
  MappedChannel* mapped = nullptr;  ///< `channel`, if it is a MappedChannel
  Path path;
  bool needs_agent = false;  ///< the peer must run its agent
};

/// A measurement of access to device memory.
struct Figures {
  std::string of;         ///< the peer, the method of sharing and the device
  std::size_t bytes = 0;  ///< size of the bandwidth measurement; 0: bandwidth wasn't measured
  double gigabytes_per_s = 0;
  double latency_us = 0;
};

/// A peer of the window that is being created.
struct PathTarget {
  int rank = -1;   ///< of the team
  int world = -1;  ///< its world rank
  const DeviceOffer& offer;
  int wire = 0;  ///< the wire of `control`
};
/// `range`: receives the peer's part if it fits. `control`: the channel to the peer's Control. `mine`: this rank's part
/// if the peer is this rank, else null. `measured`: the measurements so far of memory that is mapped here. The
/// fallback, staging, always works, so the failure of another path isn't an error: it is only recorded in Path::why.
DevicePath select_path(rma::Fabric& fabric, std::vector<Figures>& measured, const PathTarget& to, NodeRange& range,
                       base::UniqueFd descriptor, std::unique_ptr<transport::Channel> control, const DevicePart* mine);

/// Precedes the reason in a path's `why`.
inline constexpr const char* not_measured = "; not measured: ";

/// Measures access to a part of `bytes` by calls of `read(to, bytes)`, which copy its first bytes to host memory.
/// Exceptions of `read` are passed to the caller.
Figures measure_reading(std::uint64_t bytes, const std::function<void(void*, std::size_t)>& read);

}  // namespace hmc::device
