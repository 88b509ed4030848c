#include "runtime/transport/rdma/registrations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/transport/rdma/queue_pair.hpp"

namespace hmc::transport::rdma {

namespace {

constexpr int region_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

base::Bytes Registrations::add(const Region& mine) {
  if (mine.type != MemoryType::CPU && mine.type != MemoryType::DEFAULT)
    throw Error(Code::unsupported, "verbs", "this wire reaches host memory only");
  Registered region{mine.base, mine.bytes, nullptr};
  base::ByteWriter key;
  if (mine.bytes > 0) {
    // An atomic on a 32-bit word is a compare-swap of the 8 bytes around it, which may exceed the region.
    const std::size_t before = number_of(mine.base) % 8;
    region.registration =
        device_.register_memory(mine.base - before, base::round_up(before + mine.bytes, 8), region_access);
    if (region.registration == nullptr)
      throw_errno(fmt::format("can't register {} bytes with {}", mine.bytes, device_.description()).c_str(), errno);
  }
  key.number(number_of(mine.base)).number(mine.bytes > 0 ? region.registration->rkey : 0U);
  regions_.push_back(std::move(region));
  retired_.reserve(retired_.size() + regions_.size() + locals_.size());  // so that retire_region() doesn't allocate
  return key.take();
}

std::vector<Registrations::Registered>::iterator Registrations::find(const Region& region) noexcept {
  return std::ranges::find_if(
      regions_, [&](const Registered& one) { return one.base == region.base && one.bytes == region.bytes; });
}

void Registrations::remove(const Region& region) noexcept {
  if (const auto found = find(region); found != regions_.end()) regions_.erase(found);
}

void Registrations::retire(const Region& region) noexcept {
  const auto found = find(region);
  if (found == regions_.end()) return;
  retired_.push_back(std::move(found->registration));
  regions_.erase(found);
}

void Registrations::add_local(const std::byte* memory, std::size_t bytes) {
  Registered local{memory, bytes, device_.register_memory(memory, bytes, IBV_ACCESS_LOCAL_WRITE)};
  if (local.registration == nullptr)
    throw_errno(fmt::format("can't register {} bytes with {}", bytes, device_.description()).c_str(), errno);
  retired_.reserve(retired_.size() + regions_.size() + locals_.size() +
                   1);  // so that neither retire() nor remove_local() allocates
  locals_.push_back(std::move(local));
}

void Registrations::remove_local(const std::byte* memory, std::size_t bytes, bool deregisters) noexcept {
  const auto found =
      std::ranges::find_if(locals_, [&](const Registered& one) { return one.base == memory && one.bytes == bytes; });
  if (found == locals_.end()) return;
  if (!deregisters) retired_.push_back(std::move(found->registration));
  locals_.erase(found);
}

const ibv_mr* Registrations::find(const std::byte* memory, std::size_t bytes) const noexcept {
  for (const auto* const list : {&regions_, &locals_})
    for (const Registered& one : *list)
      if (memory >= one.base && bytes <= one.bytes && static_cast<std::size_t>(memory - one.base) <= one.bytes - bytes)
        return one.registration.get();
  return nullptr;
}

}  // namespace hmc::transport::rdma
