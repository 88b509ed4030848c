#include "runtime/device/window_devices.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/device/device_part.hpp"
#include "runtime/device/device_requests.hpp"
#include "runtime/device/device_view.hpp"
#include "runtime/device/figures.hpp"
#include "runtime/device/kernel_reach.hpp"
#include "runtime/device/ways.hpp"
#include "runtime/rma/description.hpp"

namespace hmc::rma {

namespace {

using Offers = std::vector<std::unique_ptr<DeviceOffer>>;  // by rank; null: host memory

std::unique_ptr<NodeRange> reserve_range(const Peers& peers, const Offers& offers, int my_rank) {
  std::vector<NodeRange::Part> local;
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    if (peers[rank].local_index >= 0)
      local.push_back(
          {static_cast<int>(rank), offers[rank].get(), peers[rank].bytes, static_cast<int>(rank) == my_rank});
  return std::make_unique<NodeRange>(local);
}

class WindowDevices final : public DeviceAccess {
 public:
  explicit WindowDevices(Core& core) noexcept : core_(core), fabric_(core.fabric()) {}

  transport::Region adopt(std::shared_ptr<memory::Allocation> part) override {
    part_.emplace(fabric_, std::move(part));
    return part_->control_region();
  }
  base::Bytes offer() const override { return part_->offer().encode(); }
  std::vector<int> open(std::span<const Description> ranks, Peers& peers,
                        std::vector<std::unique_ptr<transport::Channel>>& channels, base::Deadline deadline) override;
  void serve(std::span<const int> clients) override;

  bool look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word,
            base::Status& status) const noexcept override {
    return part_->look(watch, offset, word, status);
  }
  Pending request(int rank, std::uint64_t number) const noexcept override {
    return {requests_->index(), requests_->ticket(rank, number)};
  }
  base::Status flush(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept override {
    return requests_ != nullptr ? requests_->flush(rank, note, timeout) : base::Status();
  }
  Path path(int rank) override;

  KernelReach& kernel_reach() override {
    if (kernel_reach_ == nullptr) kernel_reach_ = std::make_unique<KernelReach>(core_);
    return *kernel_reach_;
  }
  DeviceHandle handle(const memory::Provider& provider, int device, const Core* context) override {
    for (const auto& each : views_)
      if (&each->provider() == &provider && each->device() == device && each->has_context() == (context != nullptr))
        return each->handle();
    return views_.emplace_back(std::make_unique<DeviceView>(core_, range_.get(), context, provider, device))->handle();
  }

  void drop_handles() noexcept override { views_.clear(); }
  void unmap() noexcept override {
    requests_.reset();
    channels_.clear();
    kernel_reach_.reset();
    range_.reset();
  }

 private:
  std::vector<base::UniqueFd> take_descriptors(std::span<const Description> ranks, const Peers& peers,
                                               const Offers& offers, base::Deadline deadline) const;

  Core& core_;
  Fabric& fabric_;
  std::vector<Path> paths_;         // by rank; empty if no part is device memory
  std::optional<DevicePart> part_;  // this rank's, if it is device memory
  std::unique_ptr<NodeRange> range_;
  std::vector<std::unique_ptr<DeviceChannel>> channels_;
  std::unique_ptr<DeviceRequests> requests_;
  std::unique_ptr<KernelReach> kernel_reach_;
  std::vector<std::unique_ptr<DeviceView>> views_;
};

std::vector<int> WindowDevices::open(std::span<const Description> ranks, Peers& peers,
                                     std::vector<std::unique_ptr<transport::Channel>>& channels,
                                     base::Deadline deadline) {
  Offers offers(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].device.empty())
      offers[rank] = std::make_unique<DeviceOffer>(DeviceOffer::decode(ranks[rank].device, peers[rank].world));
  for (const Peer& peer : peers) paths_.push_back(fabric_.paths[static_cast<std::size_t>(peer.world)]);
  std::vector<int> helpers;
  std::vector<MappedChannel*> mapped(ranks.size());
  range_ = reserve_range(peers, offers, core_.rank());
  auto descriptors = take_descriptors(ranks, peers, offers, deadline);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (offers[rank] == nullptr) continue;
    Peer& peer = peers[rank];
    const auto found = std::find_if(channels.begin(), channels.end(),
                                    [&](const auto& channel) { return channel.get() == peer.channel; });
    auto control = std::move(*found);
    channels.erase(found);
    DeviceWay way = find_way(fabric_, {static_cast<int>(rank), peer.world, *offers[rank], peer.wire}, *range_,
                             std::move(descriptors[rank]), std::move(control),
                             static_cast<int>(rank) == core_.rank() ? &*part_ : nullptr);
    peer.direct = nullptr;
    peer.channel = way.channel.get();
    peer.on_device = true;
    mapped[rank] = way.mapped;
    paths_[rank] = std::move(way.path);
    if (way.needs_agent) helpers.push_back(peer.world);
    channels_.push_back(std::move(way.channel));
  }
  requests_ = std::make_unique<DeviceRequests>(fabric_, std::move(mapped));
  return helpers;
}

/// By team rank; an empty descriptor for a rank without one.
std::vector<base::UniqueFd> WindowDevices::take_descriptors(std::span<const Description> ranks, const Peers& peers,
                                                            const Offers& offers, base::Deadline deadline) const {
  std::vector<std::size_t> local;  // the team's ranks on this node, by world rank
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (peers[rank].local_index >= 0) local.push_back(rank);
  std::sort(local.begin(), local.end(), [&](std::size_t a, std::size_t b) { return peers[a].world < peers[b].world; });
  std::vector<LocalOffer> local_offers;
  for (const std::size_t rank : local) local_offers.push_back({peers[rank].world, offers[rank].get()});
  auto passed =
      pass_descriptors(fabric_, local_offers, ranks[local.front()].share, part_ ? &*part_ : nullptr, deadline);
  std::vector<base::UniqueFd> by_rank(ranks.size());
  for (std::size_t i = 0; i < local.size(); ++i) by_rank[local[i]] = std::move(passed[i]);
  return by_rank;
}

void WindowDevices::serve(std::span<const int> clients) {
  part_->give_back();
  if (clients.empty()) return;
  // A rank on another node can't wake the agent.
  const bool by_far = std::any_of(clients.begin(), clients.end(),
                                  [&](int world) { return !fabric_.paths[static_cast<std::size_t>(world)].direct; });
  paths_[static_cast<std::size_t>(core_.rank())].why += "; " + part_->start_agent(by_far);
}

Path WindowDevices::path(int rank) {
  Path& path = paths_[static_cast<std::size_t>(rank)];
  // Measure a staged path at the first call: the owner's agent runs only once the window is open, and few callers need
  // the result.
  if (path.wire == "staged" && path.latency_us == 0 && path.why.find(not_measured) == std::string::npos) {
    try {
      const auto figures = measure_reading(core_.peers()[static_cast<std::size_t>(rank)].bytes,
                                           [&](void* into, std::size_t bytes) { core_.get(rank, 0, into, bytes); });
      path.gigabytes_per_s = figures.gigabytes_per_s;
      path.latency_us = figures.latency_us;
    } catch (const std::exception& error) {
      path.why += not_measured + std::string(error.what());
    }
  }
  return path;
}

}  // namespace

std::unique_ptr<DeviceAccess> make_device_access(Core& core) { return std::make_unique<WindowDevices>(core); }

}  // namespace hmc::rma
