// Parts of a window that are device memory: how they are opened.
#include <algorithm>
#include <memory>

#include "runtime/window/core.hpp"
#include "runtime/window/description.hpp"
#include "runtime/window/device/device_part.hpp"
#include "runtime/window/device/device_requests.hpp"
#include "runtime/window/device/figures.hpp"
#include "runtime/window/device/ways.hpp"

namespace hmc::window {

namespace {

std::unique_ptr<NodeRange> reserve_range(const Peers& peers, const std::vector<std::unique_ptr<DeviceOffer>>& offers,
                                         int my_rank) {
  std::vector<NodeRange::Part> local;
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    if (peers[rank].local_index >= 0)
      local.push_back(
          {static_cast<int>(rank), offers[rank].get(), peers[rank].bytes, static_cast<int>(rank) == my_rank});
  return std::make_unique<NodeRange>(local);
}

}  // namespace

void Core::adopt_device(const std::shared_ptr<memory::Allocation>& allocation) {
  device_ = std::make_unique<DevicePart>(*fabric_, allocation);
  exposed_region_ = device_->control_region();
}

std::vector<int> Core::open_devices(const std::vector<Description>& ranks, Peers& peers, base::Deadline deadline) {
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
  std::vector<MappedChannel*> mapped(ranks.size());
  node_range_ = reserve_range(peers, offers, rank_);
  auto descriptors = take_descriptors(ranks, peers, offers, deadline);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (offers[rank] == nullptr) continue;
    Peer& peer = peers[rank];
    const auto control = std::find_if(channels_.begin(), channels_.end(),
                                      [&](const auto& channel) { return channel.get() == peer.channel; });
    DeviceWay way = find_way(*fabric_, {static_cast<int>(rank), peer.world, *offers[rank], peer.wire}, *node_range_,
                             std::move(descriptors[rank]), std::move(*control),
                             static_cast<int>(rank) == rank_ ? device_.get() : nullptr);
    peer.direct = nullptr;
    peer.channel = way.channel.get();
    mapped[rank] = way.channel->as_mapped();
    peer.on_device = true;
    device_paths_[rank] = std::move(way.path);
    if (way.needs_agent) helpers.push_back(peer.world);
    *control = std::move(way.channel);
  }
  device_requests_ = std::make_unique<DeviceRequests>(*fabric_, std::move(mapped));
  return helpers;
}

/// By rank of the team; empty where there is none.
std::vector<base::UniqueFd> Core::take_descriptors(const std::vector<Description>& ranks, const Peers& peers,
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
      bool needed = false, by_far = false;  // who is on another node can't ring
      for (std::size_t rank = 0; rank < answers.size(); ++rank) {
        const auto& helpers = answers[rank].helpers;
        if (std::find(helpers.begin(), helpers.end(), fabric_->rank) == helpers.end()) continue;
        needed = true;
        const int world = world_rank(static_cast<int>(rank));
        by_far = by_far || !fabric_->paths[static_cast<std::size_t>(world)].direct;
      }
      if (needed) device_paths_[static_cast<std::size_t>(rank_)].why += "; " + device_->start_agent(by_far);
    } catch (const Error& error) {
      outcome = error.detail();
    }
  }
  agree(outcome);  // from here on a peer may put
}

Path Core::path(int rank) {
  const Peer& to = peer("Window::path", rank);
  if (device_paths_.empty()) return fabric_->paths[static_cast<std::size_t>(to.world)];
  Path& path = device_paths_[static_cast<std::size_t>(rank)];
  // Its owner serves, which it does only once the window is open; and nobody may want to know.
  if (path.wire == "staged" && path.latency_us == 0 && path.why.find(not_measured) == std::string::npos) {
    try {
      const auto figures = measure_reading(to.bytes, [&](void* into, std::size_t bytes) { get(rank, 0, into, bytes); });
      path.gigabytes_per_s = figures.gigabytes_per_s;
      path.latency_us = figures.latency_us;
    } catch (const std::exception& error) {
      path.why += not_measured + std::string(error.what());
    }
  }
  return path;
}

}  // namespace hmc::window
