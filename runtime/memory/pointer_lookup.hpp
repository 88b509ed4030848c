// Whether this process may have memory that the host can't reach: what the fast ways ask first.
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

namespace detail {
/// Set once, when the first vendor's library was opened and works; part of the table of opened libraries.
extern std::atomic<bool> devices_present;
}  // namespace detail

/// False: every pointer of this process is the host's. One load.
inline bool devices_present() noexcept {
  // Relaxed: whoever has a device's pointer got it after the library was opened, from this thread or
  // through something that orders it.
  return detail::devices_present.load(std::memory_order_relaxed);
}

/// Looks whether somebody has opened a vendor's library since. Done whenever a window is made: a pointer of
/// a library that HMC has never met is taken for the host's.
void look_for_devices() noexcept;

/// As owner_of, among the libraries that were met so far: asks them, and not the loader.
Owner known_owner_of(const void* address) noexcept;

inline bool host_reaches(const Owner& owner) noexcept { return owner.info.kind != PointerKind::device; }
inline bool host_reaches(const void* address) noexcept {
  return !devices_present() || host_reaches(known_owner_of(address));
}
/// Of an allocation, without asking anybody.
Owner owner_of(const Allocation& allocation) noexcept;

/// One of the two at least lies on a device.
inline Transfer transfer_between(void* destination, const Owner& to, const void* source, const Owner& from,
                                 std::size_t bytes) noexcept {
  const bool reads_device = !host_reaches(from), writes_device = !host_reaches(to);
  return {.destination = destination,
          .source = source,
          .width = bytes,
          .direction = !reads_device    ? Direction::host_to_device
                       : !writes_device ? Direction::device_to_host
                                        : Direction::device_to_device,
          .destination_device = writes_device ? to.info.device : -1,
          .source_device = reads_device ? from.info.device : -1};
}

/// As copy_between, with the owners known.
base::Status copy_between(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept;

}  // namespace hmc::memory
