#include "runtime/device/ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"
#include "runtime/device/figures.hpp"
#include "runtime/device/mapped_channel.hpp"
#include "runtime/device/staged_channel.hpp"

namespace hmc::rma {

namespace {

/// Reads the owner's probe through the mapping and writes it back. Returns the reason if the mapping fails the test.
std::string try_mapping(const DeviceMemory& memory, const DeviceOffer& offer) {
  if (offer.probe_bytes == 0) return {};
  std::array<std::byte, sizeof offer.probe> seen{};
  if (const auto status = memory.read_to_host(0, seen.data(), offer.probe_bytes); !status.ok()) return status.what;
  if (std::memcmp(seen.data(), &offer.probe, offer.probe_bytes) != 0)
    return "the mapping doesn't show the owner's data";
  if (const auto status = memory.write_from_host(0, seen.data(), offer.probe_bytes); !status.ok()) return status.what;
  return {};
}

DeviceMemory import_memory(const DeviceOffer& offer, memory::Exported exported) {
  const memory::Provider& provider = memory::provider_for(offer.type);
  // This process may number devices differently. A number that doesn't exist here is replaced by device 0.
  const int count = static_cast<int>(provider.devices().size());
  return DeviceMemory(provider.import(std::move(exported), offer.device < count ? offer.device : 0));
}

/// Maps the peer's part into its slot of the node's range. Returns false if it isn't in the range. `note`: the slot, or
/// the reason.
bool put_into_range(NodeRange& range, const PathTarget& to, const memory::Exported& exported, DeviceMemory& placed,
                    std::string& note) {
  if (!range.serves(to.rank)) {
    const bool fits = ticket_of(to.offer, memory::SharingKind::vmm_fd) != nullptr;
    if (fits && !range.why_not().empty()) note = "; not in one range with the node's others: " + range.why_not();
    return false;
  }
  std::string why;
  try {
    placed = range.put(to.rank, exported);
    why = try_mapping(placed, to.offer);
  } catch (const Error& error) {
    why = error.detail().message;
  }
  if (why.empty()) {
    note = fmt::format("; place {} of the node's range", range.place(to.rank));
    return true;
  }
  placed = DeviceMemory();
  range.drop(to.rank);
  note = fmt::format("; not at place {} of the node's range: {}", range.place(to.rank), why);
  return false;
}

/// Maps memory of this process a second time, in the range. `note`: the slot, or the reason of the failure.
void put_own_into_range(NodeRange& range, const PathTarget& to, std::string& note) {
  const DeviceOffer::Ticket* const ticket = ticket_of(to.offer, memory::SharingKind::vmm_fd);
  DeviceMemory placed;
  if (ticket != nullptr) (void)put_into_range(range, to, {ticket->ticket, {}}, placed, note);
}

/// The value of HMC_DEVICE_SHARING for this method.
const char* word_of(memory::SharingKind kind) noexcept {
  switch (kind) {
    case memory::SharingKind::same_process: return "process";
    case memory::SharingKind::vmm_fd: return "vmm";
    case memory::SharingKind::fabric: return "fabric";
    case memory::SharingKind::ipc: return "ipc";
  }
  return "";
}

/// Tries the sharing methods in the order of the tickets, and appends the reason of each failure to `notes`.
bool map_memory(NodeRange& range, const PathTarget& to, base::UniqueFd& descriptor, DeviceMemory& mapped,
                std::string& kind, std::string& notes) {
  const std::string forced = base::Env::device_sharing();
  for (const DeviceOffer::Ticket& ticket : to.offer.tickets) {
    std::string why = ticket.why_not, where;
    if (!forced.empty() && forced != word_of(ticket.kind)) why = "HMC_DEVICE_SHARING=" + forced;
    if (why.empty()) {
      try {
        const bool by_descriptor = ticket.kind == memory::SharingKind::vmm_fd;
        memory::Exported exported{ticket.ticket, by_descriptor ? std::move(descriptor) : base::UniqueFd()};
        if (!by_descriptor || !put_into_range(range, to, exported, mapped, where)) {
          mapped = import_memory(to.offer, std::move(exported));
          why = try_mapping(mapped, to.offer);
        }
        if (why.empty() && ticket.kind == memory::SharingKind::same_process) put_own_into_range(range, to, where);
      } catch (const Error& error) {
        why = error.detail().message;
      }
    }
    kind = name_of(ticket.kind);
    notes += where;
    if (why.empty()) return true;
    mapped = DeviceMemory();
    notes += fmt::format("; not {}: {}", kind, why);
  }
  return false;
}

void take(DevicePath& way, std::unique_ptr<MappedChannel> channel) noexcept {
  way.mapped = channel.get();
  way.channel = std::move(channel);
}

}  // namespace

std::vector<base::UniqueFd> pass_descriptors(Fabric& fabric, std::span<const LocalOffer> local, std::uint64_t round,
                                             const DevicePart* mine, base::Deadline deadline) {
  const bool any = std::any_of(local.begin(), local.end(), [](const LocalOffer& each) {
    return each.offer != nullptr && ticket_of(*each.offer, memory::SharingKind::vmm_fd) != nullptr;
  });
  if (!any || local.size() < 2) return std::vector<base::UniqueFd>(local.size());
  base::ShareGroup group;
  group.number = round;
  for (const LocalOffer& each : local) group.members.push_back(each.world);
  const base::UniqueFd none;
  return fabric.node_link->pass(group, mine != nullptr ? mine->descriptor() : none, deadline);
}

DevicePath select_path(Fabric& fabric, const PathTarget& to, NodeRange& range, base::UniqueFd descriptor,
                       std::unique_ptr<transport::Channel> control, const DevicePart* mine) {
  const int peer = to.world;
  const std::string memory_name = name_of(to.offer.type);
  DevicePath way;
  if (mine != nullptr) {
    std::string where;
    put_own_into_range(range, to, where);
    way.path = {"self", false, memory_name + " memory of its own" + where};
    take(way, std::make_unique<MappedChannel>(fabric, peer, mine->memory(), mine->control(), std::move(control)));
    return way;
  }
  const Path& by = fabric.peer(peer).path;
  std::string kind, notes;
  std::byte* const mapped_control = control->direct();
  if (mapped_control == nullptr) notes = fmt::format("; not mapped: {} ({})", by.wire, by.why);
  DeviceMemory mapped;
  if (mapped_control != nullptr && map_memory(range, to, descriptor, mapped, kind, notes)) {
    way.path = {kind, false, fmt::format("{} memory, mapped here{}", memory_name, notes)};
    if (mapped.bytes() > 0) measure_mapping(fabric, peer, to.offer, mapped, way.path);
    take(way, std::make_unique<MappedChannel>(fabric, peer, std::move(mapped), mapped_control, std::move(control)));
  } else {
    way.path = {"staged", false, fmt::format("{} memory; its owner copies, over {}{}", memory_name, by.wire, notes)};
    way.channel = std::make_unique<StagedChannel>(fabric, peer, to.wire, std::move(control));
    way.needs_agent = true;
  }
  fabric.log.info("device memory of rank {}: {} ({})", peer, way.path.wire, way.path.why);
  return way;
}

}  // namespace hmc::rma
