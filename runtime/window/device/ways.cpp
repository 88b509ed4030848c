#include "runtime/window/device/ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/window/device/helped_channel.hpp"
#include "runtime/window/device/mapped_channel.hpp"

namespace hmc::window {

namespace {

bool has(const DeviceOffer& offer, memory::SharingKind kind) {
  return std::any_of(offer.tickets.begin(), offer.tickets.end(),
                     [&](const auto& each) { return each.kind == kind && each.why_not.empty(); });
}

/// What the owner has written is read through the mapping, and can be written there.
std::string try_mapping(const DeviceMemory& memory, const DeviceOffer& offer) {
  if (offer.probe_bytes == 0) return {};
  std::array<std::byte, sizeof offer.probe> seen{};
  if (const auto status = memory.read_to_host(0, seen.data(), offer.probe_bytes); !status.ok()) return status.what;
  if (std::memcmp(seen.data(), &offer.probe, offer.probe_bytes) != 0) return "what its owner wrote isn't seen there";
  if (const auto status = memory.write_from_host(0, seen.data(), offer.probe_bytes); !status.ok()) return status.what;
  return {};
}

DeviceMemory import_memory(const DeviceOffer& offer, const DeviceOffer::Ticket& ticket, base::UniqueFd descriptor) {
  const memory::Provider& provider = memory::provider_for(offer.type);
  // Where devices are numbered otherwise here, any of this process will do.
  const int count = static_cast<int>(provider.devices().size());
  return DeviceMemory(provider.import({ticket.ticket, std::move(descriptor)}, offer.device < count ? offer.device : 0));
}

/// Tries the kinds of sharing in their order; the reasons of those that don't work go to `passed_over`.
bool map_memory(const DeviceOffer& offer, base::UniqueFd& descriptor, DeviceMemory& mapped, std::string& kind,
                std::string& passed_over) {
  for (const DeviceOffer::Ticket& ticket : offer.tickets) {
    std::string why = ticket.why_not;
    if (why.empty()) {
      try {
        const bool takes_it = ticket.kind == memory::SharingKind::vmm_fd;
        mapped = import_memory(offer, ticket, takes_it ? std::move(descriptor) : base::UniqueFd());
        why = try_mapping(mapped, offer);
      } catch (const Error& error) {
        why = error.detail().message;
      }
    }
    kind = name_of(ticket.kind);
    if (why.empty()) return true;
    mapped = DeviceMemory();
    passed_over += fmt::format("; not {}: {}", kind, why);
  }
  return false;
}

}  // namespace

std::vector<base::UniqueFd> pass_descriptors(Fabric& fabric, std::span<const LocalOffer> local, std::uint64_t round,
                                             const DevicePart* mine, base::Deadline deadline) {
  const bool any = std::any_of(local.begin(), local.end(), [](const LocalOffer& each) {
    return each.offer != nullptr && has(*each.offer, memory::SharingKind::vmm_fd);
  });
  if (!any || local.size() < 2) return std::vector<base::UniqueFd>(local.size());
  base::ShareGroup group;
  group.number = round;
  for (const LocalOffer& each : local) group.members.push_back(each.world);
  const base::UniqueFd none;
  return fabric.node_link->pass(group, mine != nullptr ? mine->descriptor() : none, deadline);
}

DeviceWay find_way(Fabric& fabric, int peer, const DeviceOffer& offer, base::UniqueFd descriptor, int wire,
                   std::unique_ptr<transport::Channel> control, const DevicePart* mine) {
  const std::string memory_name = name_of(offer.type);
  DeviceWay way;
  if (mine != nullptr) {
    way.path = {"self", false, memory_name + " memory of its own"};
    way.channel = std::make_unique<MappedChannel>(fabric, peer, mine->memory(), mine->control(), std::move(control));
    return way;
  }
  const Path& by = fabric.paths[static_cast<std::size_t>(peer)];
  std::string kind, passed_over;
  std::byte* const mapped_control = control->direct();
  if (mapped_control == nullptr) passed_over = fmt::format("; not mapped: {} ({})", by.wire, by.why);
  DeviceMemory mapped;
  if (mapped_control != nullptr && map_memory(offer, descriptor, mapped, kind, passed_over)) {
    way.path = {kind, false, fmt::format("{} memory, mapped here{}", memory_name, passed_over)};
    way.channel = std::make_unique<MappedChannel>(fabric, peer, std::move(mapped), mapped_control, std::move(control));
  } else {
    way.path = {"staged", false,
                fmt::format("{} memory; its owner copies, over {}{}", memory_name, by.wire, passed_over)};
    way.channel = std::make_unique<HelpedChannel>(fabric, peer, wire, std::move(control));
    way.needs_agent = true;
  }
  fabric.log.info("device memory of rank {}: {} ({})", peer, way.path.wire, way.path.why);
  return way;
}

}  // namespace hmc::window
