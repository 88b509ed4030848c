// Parts of a window that are device memory: how they are opened.
#include <algorithm>
#include <memory>

#include "runtime/window/core.hpp"
#include "runtime/window/description.hpp"
#include "runtime/window/device/device_part.hpp"
#include "runtime/window/device/ways.hpp"

namespace hmc::window {

void Core::adopt_device(const std::shared_ptr<memory::Allocation>& allocation) {
  device_ = std::make_unique<DevicePart>(*fabric_, allocation);
  exposed_region_ = device_->control_region();
}

std::vector<int> Core::open_devices(const std::vector<Description>& ranks, std::vector<Peer>& peers,
                                    base::Deadline deadline) {
  std::vector<std::unique_ptr<DeviceOffer>> offers(ranks.size());
  std::vector<int> helpers;
  bool any = false;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].device.empty()) continue;
    offers[rank] = std::make_unique<DeviceOffer>(DeviceOffer::decode(ranks[rank].device, peers[rank].world));
    any = true;
  }
  if (!any) return helpers;
  for (const Peer& peer : peers) device_paths_.push_back(fabric_->paths[static_cast<std::size_t>(peer.world)]);
  auto descriptors = take_descriptors(ranks, peers, offers, deadline);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (offers[rank] == nullptr) continue;
    Peer& peer = peers[rank];
    const auto control = std::find_if(channels_.begin(), channels_.end(),
                                      [&](const auto& channel) { return channel.get() == peer.channel; });
    DeviceWay way = find_way(*fabric_, peer.world, *offers[rank], std::move(descriptors[rank]), peer.wire,
                             std::move(*control), static_cast<int>(rank) == rank_ ? device_.get() : nullptr);
    peer.direct = nullptr;
    peer.channel = way.channel.get();
    peer.on_device = true;
    device_paths_[rank] = std::move(way.path);
    if (way.needs_agent) helpers.push_back(peer.world);
    *control = std::move(way.channel);
  }
  return helpers;
}

/// By rank of the team; empty where there is none.
std::vector<base::UniqueFd> Core::take_descriptors(const std::vector<Description>& ranks,
                                                   const std::vector<Peer>& peers,
                                                   const std::vector<std::unique_ptr<DeviceOffer>>& offers,
                                                   base::Deadline deadline) const {
  std::vector<std::size_t> local;  // the team's ranks on this node, by world rank
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (peers[rank].local_index >= 0) local.push_back(rank);
  std::sort(local.begin(), local.end(), [&](std::size_t a, std::size_t b) { return peers[a].world < peers[b].world; });
  std::vector<LocalOffer> local_offers;
  for (const std::size_t rank : local) local_offers.push_back({peers[rank].world, offers[rank].get()});
  auto passed = pass_descriptors(*fabric_, local_offers, ranks[local.front()].share, device_.get(), deadline);
  std::vector<base::UniqueFd> by_rank(ranks.size());
  for (std::size_t i = 0; i < local.size(); ++i) by_rank[local[i]] = std::move(passed[i]);
  return by_rank;
}

void Core::settle_devices(const std::vector<Description>& answers) {
  if (device_paths_.empty()) return;
  ErrorDetail outcome;
  outcome.code = Code::success;
  if (device_ != nullptr) {
    try {
      device_->give_back();
      const bool needed = std::any_of(answers.begin(), answers.end(), [&](const Description& each) {
        return std::find(each.helpers.begin(), each.helpers.end(), fabric_->rank) != each.helpers.end();
      });
      if (needed) device_->start_agent();
    } catch (const Error& error) {
      outcome = error.detail();
    }
  }
  agree(outcome);  // from here on a peer may put
}

Path Core::path(int rank) const {
  (void)peer("Window::path", rank);
  if (!device_paths_.empty()) return device_paths_[static_cast<std::size_t>(rank)];
  return fabric_->paths[static_cast<std::size_t>(world_rank(rank))];
}

}  // namespace hmc::window
