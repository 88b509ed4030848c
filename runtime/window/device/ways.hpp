// Which way this rank takes into a peer's device memory: decided per pair when the window opens, by trial.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/window/device/device_part.hpp"
#include "runtime/window/device/node_range.hpp"
#include "runtime/window/device_channel.hpp"

namespace hmc::window {

class MappedChannel;

struct DeviceWay {
  std::unique_ptr<DeviceChannel> channel;
  MappedChannel* mapped = nullptr;  ///< `channel`, if it is one
  Path path;
  bool needs_agent = false;  ///< of the peer
};

/// A rank of this window on this node, and what it offers: null where its part is host memory.
struct LocalOffer {
  int world = -1;
  const DeviceOffer* offer = nullptr;
};
/// Collective over those: the descriptors that their tickets need, in their order. `round` is the same for all.
std::vector<base::UniqueFd> pass_descriptors(Fabric& fabric, std::span<const LocalOffer> local, std::uint64_t round,
                                             const DevicePart* mine, base::Deadline deadline);

/// A peer of the window that is being opened.
struct WayTo {
  int rank = -1;   ///< of the team
  int world = -1;  ///< its world rank
  const DeviceOffer& offer;
  int wire = 0;  ///< by which `control` goes
};
/// `range`: where its part gets its place. `control`: the way to the peer's Control. `mine`: this rank's part if the
/// peer is itself. The last way always works, so what fails before is only a reason in the path.
DeviceWay find_way(Fabric& fabric, const WayTo& to, NodeRange& range, base::UniqueFd descriptor,
                   std::unique_ptr<transport::Channel> control, const DevicePart* mine);

}  // namespace hmc::window
