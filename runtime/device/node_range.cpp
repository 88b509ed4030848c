#include "runtime/device/node_range.hpp"

#include <algorithm>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"

namespace hmc::rma {

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

}  // namespace hmc::rma
