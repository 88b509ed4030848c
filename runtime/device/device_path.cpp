#include "runtime/device/device_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"
#include "runtime/device/mapped_channel.hpp"
#include "runtime/device/staged_channel.hpp"

namespace hmc::device {

namespace {

/// The vendor of this rank's part if the part can be shared by descriptor, otherwise of the first part that can.
/// DEFAULT: no part can.
MemoryType type_for(std::span<const NodeRange::Part> local) noexcept {
  MemoryType type = MemoryType::DEFAULT;
  for (const NodeRange::Part& part : local) {
    if (part.offer == nullptr || ticket_of(*part.offer, memory::SharingKind::vmm_fd) == nullptr) continue;
    if (part.is_mine || type == MemoryType::DEFAULT) type = part.offer->type;
  }
  return type;
}

}  // namespace

const DeviceOffer::Ticket* ticket_of(const DeviceOffer& offer, memory::SharingKind kind) noexcept {
  const auto found = std::find_if(offer.tickets.begin(), offer.tickets.end(),
                                  [&](const auto& each) { return each.kind == kind && each.why_not.empty(); });
  return found == offer.tickets.end() ? nullptr : &*found;
}

NodeRange::NodeRange(std::span<const Part> local) {
  const std::string forced = base::Env::device_sharing();
  const MemoryType type = type_for(local);
  if (type == MemoryType::DEFAULT || (!forced.empty() && forced != "vmm")) return;
  std::uint64_t largest = 1;
  std::size_t fitting = 0;
  for (const Part& part : local) {
    Place place;
    place.rank = part.rank;
    place.fits = part.offer != nullptr && part.offer->type == type &&
                 ticket_of(*part.offer, memory::SharingKind::vmm_fd) != nullptr;
    if (place.fits) {
      place.device = part.offer->device;
      largest = std::max(largest, part.bytes);
      ++fitting;
    }
    places_.push_back(std::move(place));
  }
  if (fitting < 2) return;
  try {
    provider_ = &memory::provider_for(type);
    const int count = static_cast<int>(provider_->devices().size());
    // This process may number devices differently. A number that doesn't exist here is replaced by device 0.
    for (Place& place : places_) place.device = place.device < count ? place.device : 0;
    range_ = provider_->reserve(0, places_.size(), largest);
  } catch (const Error& error) {
    why_not_ = error.detail().message;
  }
}

bool NodeRange::serves(int rank) const noexcept {
  return range_ != nullptr && place(rank) < places_.size() && places_[place(rank)].fits;
}

std::size_t NodeRange::place(int rank) const noexcept {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& each) { return each.rank == rank; });
  return static_cast<std::size_t>(found - places_.begin());
}

DeviceMemory NodeRange::put(int rank, const memory::Exported& exported) {
  const std::size_t number = place(rank);
  Place& into = places_[number];
  into.part = provider_->import_into(range_, number, exported, into.device);
  return DeviceMemory(into.part);
}

void NodeRange::drop(int rank) noexcept {
  if (const std::size_t number = place(rank); number < places_.size()) places_[number].part.reset();
}

memory::Allocation* NodeRange::at(int rank) const noexcept {
  const std::size_t number = place(rank);
  return number < places_.size() ? places_[number].part.get() : nullptr;
}

namespace {

template <typename Work> double fastest_us(int rounds, Work&& work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t start = base::now_ns();
    work();
    best = std::min(best, static_cast<double>(base::now_ns() - start) / 1e3);
  }
  return best;
}

void throw_if_bad(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "measure", status.what);
}

constexpr int words_read = 4, blocks_read = 3;
constexpr std::size_t measured_most = std::size_t{16} << 20, measured_least = std::size_t{64} << 10;

std::size_t measured_of(std::uint64_t bytes) noexcept {
  return bytes >= measured_least ? std::min<std::uint64_t>(bytes, measured_most) : 0;
}

void set_bandwidth(Figures& figures, std::size_t bytes, double us) noexcept {
  figures.bytes = bytes;
  figures.gigabytes_per_s = static_cast<double>(bytes) / us / 1e3;
}

/// Bandwidth of a copy to the device's own memory, and latency of reading a word to the host.
Figures measure(const DeviceMemory& memory, std::size_t bytes) {
  Figures figures;
  std::uint64_t word = 0;
  const std::size_t small = std::min<std::uint64_t>(sizeof word, memory.bytes());
  figures.latency_us = fastest_us(words_read, [&] { throw_if_bad(memory.read_to_host(0, &word, small)); });
  if (bytes == 0) return figures;
  const memory::Owner& owner = memory.owner();
  const auto own = owner.provider->allocate(owner.info.device, bytes, memory::Backing::plain);
  set_bandwidth(figures, bytes, fastest_us(blocks_read, [&] {
                  throw_if_bad(owner.provider->copy({.destination = own->address,
                                                     .source = memory.allocation()->address,
                                                     .width = bytes,
                                                     .direction = memory::Direction::device_to_device,
                                                     .destination_device = owner.info.device,
                                                     .source_device = owner.info.device}));
                }));
  return figures;
}

/// Measures access to a peer's memory that is mapped in this process, and stores the result in `path`. One measurement
/// per peer, device and method of sharing. It is repeated if a later part allows a larger block.
void measure_mapping(std::vector<Figures>& known, int peer, const DeviceOffer& offer, const DeviceMemory& memory,
                     Path& path) {
  const std::size_t bytes = memory::is_host_accessible(memory.owner()) ? 0 : measured_of(memory.bytes());
  const std::string of = fmt::format("{} {} {} {}", peer, path.wire, static_cast<int>(offer.type), offer.device);
  auto found = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.of == of; });
  if (found == known.end() || found->bytes < bytes) {
    try {
      Figures figures = measure(memory, bytes);
      figures.of = of;
      if (found == known.end()) found = known.insert(known.end(), Figures{});
      *found = std::move(figures);
    } catch (const Error& error) {
      path.why += not_measured + error.detail().message;
      return;
    }
  }
  path.gigabytes_per_s = found->gigabytes_per_s;
  path.latency_us = found->latency_us;
}

}  // namespace

Figures measure_reading(std::uint64_t bytes, const std::function<void(void*, std::size_t)>& read) {
  Figures figures;
  const std::size_t block = measured_of(bytes), small = std::min<std::uint64_t>(sizeof(std::uint64_t), bytes);
  const auto to = std::make_unique<std::byte[]>(std::max(block, small));
  if (small > 0) figures.latency_us = fastest_us(words_read, [&] { read(to.get(), small); });
  if (block > 0) set_bandwidth(figures, block, fastest_us(blocks_read, [&] { read(to.get(), block); }));
  return figures;
}

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

DevicePath select_path(rma::Fabric& fabric, std::vector<Figures>& measured, const PathTarget& to, NodeRange& range,
                       base::UniqueFd descriptor, std::unique_ptr<transport::Channel> control, const DevicePart* mine) {
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
    if (mapped.bytes() > 0) measure_mapping(measured, peer, to.offer, mapped, way.path);
    take(way, std::make_unique<MappedChannel>(fabric, peer, std::move(mapped), mapped_control, std::move(control)));
  } else {
    way.path = {"staged", false, fmt::format("{} memory; its owner copies, over {}{}", memory_name, by.wire, notes)};
    way.channel = std::make_unique<StagedChannel>(fabric, peer, to.wire, std::move(control));
    way.needs_agent = true;
  }
  fabric.log.info("device memory of rank {}: {} ({})", peer, way.path.wire, way.path.why);
  return way;
}

}  // namespace hmc::device
