#include "runtime/memory/vendors/opencl_addresses.hpp"

#include <sys/mman.h>

#include <new>

#include "runtime/base/segment.hpp"

namespace hmc::memory {

void* OpenClAddresses::add(void* buffer, std::size_t bytes, int device) noexcept {
  const std::size_t span = base::round_up(bytes, base::page_size());
  void* const address = ::mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  const std::scoped_lock lock(mutex_);
  try {
    ranges_.emplace(reinterpret_cast<std::uintptr_t>(address), Range{bytes, buffer, device});
  } catch (const std::bad_alloc&) {
    ::munmap(address, span);
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  // Relaxed: a thread that looks up this address has received it after these stores, so the stores happen before its
  // loads.
  if (start < lowest_.load(std::memory_order_relaxed)) lowest_.store(start, std::memory_order_relaxed);
  if (start + span > end_.load(std::memory_order_relaxed)) end_.store(start + span, std::memory_order_relaxed);
  return address;
}

void* OpenClAddresses::remove(void* address) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == ranges_.end()) return nullptr;
  void* const buffer = found->second.buffer;
  ::munmap(address, base::round_up(found->second.bytes, base::page_size()));
  ranges_.erase(found);
  return buffer;
}

OpenClAddresses::Place OpenClAddresses::find(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < lowest_.load(std::memory_order_relaxed) || at >= end_.load(std::memory_order_relaxed)) return {};
  const std::scoped_lock lock(mutex_);
  auto found = ranges_.upper_bound(at);
  if (found == ranges_.begin()) return {};
  --found;
  const std::size_t offset = at - found->first;
  if (offset >= found->second.bytes) return {};
  return {found->second.buffer, offset, found->second.bytes - offset, found->second.device};
}

}  // namespace hmc::memory
