// Selects the path to a peer's device memory per pair of ranks, by trial, when the window is created.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/device/device_channel.hpp"
#include "runtime/device/device_part.hpp"
#include "runtime/device/node_range.hpp"

namespace hmc::rma {

class MappedChannel;

struct DevicePath {
  std::unique_ptr<DeviceChannel> channel;
  MappedChannel* mapped = nullptr;  ///< `channel`, if it is a MappedChannel
  Path path;
  bool needs_agent = false;  ///< the peer must run its agent
};

/// A rank of this window on this node, and its offer; null if its part is host memory.
struct LocalOffer {
  int world = -1;
  const DeviceOffer* offer = nullptr;
};
/// Collective over the ranks in `local`. Returns the descriptors for their tickets, in the same order. `round` is equal
/// on all these ranks.
std::vector<base::UniqueFd> pass_descriptors(Fabric& fabric, std::span<const LocalOffer> local, std::uint64_t round,
                                             const DevicePart* mine, base::Deadline deadline);

/// A peer of the window that is being created.
struct PathTarget {
  int rank = -1;   ///< of the team
  int world = -1;  ///< its world rank
  const DeviceOffer& offer;
  int wire = 0;  ///< the wire of `control`
};
/// `range`: receives the peer's part if it fits. `control`: the channel to the peer's Control. `mine`: this rank's part
/// if the peer is this rank, else null. The fallback, staging, always works, so the failure of another path isn't an
/// error: it is only recorded in Path::why.
DevicePath select_path(Fabric& fabric, const PathTarget& to, NodeRange& range, base::UniqueFd descriptor,
                       std::unique_ptr<transport::Channel> control, const DevicePart* mine);

}  // namespace hmc::rma
