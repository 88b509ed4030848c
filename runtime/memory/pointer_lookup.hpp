// Pointer lookup: finds the owner of a pointer. Fast paths first check whether this process has any device memory.
// KnownRanges: memory that HMC allocated or mapped; a pointer into it is classified without a query of a driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

namespace detail {
/// Set once, when the first working vendor library is opened. Part of the registry of libraries (provider.cpp).
extern std::atomic<bool> devices_present;
}  // namespace detail

/// If false, every pointer of this process is host memory. Costs one load.
inline bool devices_present() noexcept {
  // Relaxed: a thread gets a device pointer after HMC has opened its library, by itself or through synchronization, so
  // the store happens before this load. For libraries that HMC hasn't opened see look_for_devices().
  return detail::devices_present.load(std::memory_order_relaxed);
}

/// Opens the providers of vendor libraries that the process has loaded since the last call. Called when a window is
/// created, because known_owner_of() treats memory of a library that HMC hasn't opened as host memory.
void look_for_devices() noexcept;

/// As owner_of, but queries only the libraries that HMC has opened so far, and never the loader.
Owner known_owner_of(const void* address) noexcept;

inline bool is_host_accessible(const Owner& owner) noexcept { return owner.info.kind != PointerKind::device; }
inline bool is_host_accessible(const void* address) noexcept {
  return !devices_present() || is_host_accessible(known_owner_of(address));
}
/// The owner of an allocation, derived from its fields.
Owner owner_of(const Allocation& allocation) noexcept;

/// Precondition: at least one side is device memory.
inline Transfer transfer_between(void* destination, const Owner& to, const void* source, const Owner& from,
                                 std::size_t bytes) noexcept {
  const bool reads_device = !is_host_accessible(from), writes_device = !is_host_accessible(to);
  return {.destination = destination,
          .source = source,
          .width = bytes,
          .direction = !reads_device    ? Direction::host_to_device
                       : !writes_device ? Direction::device_to_host
                                        : Direction::device_to_device,
          .destination_device = writes_device ? to.info.device : -1,
          .source_device = reads_device ? from.info.device : -1};
}

/// As copy_between, for known owners.
base::Status copy_between(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept;

/// The ranges of all KnownRange objects. Any thread. A lookup takes no lock; its cost grows with the highest slot in
/// use. If all slots are in use, further ranges aren't registered. Lookups then query the drivers, which return the
/// same result.
class KnownRanges {
 public:
  static constexpr int room = 64;
  static KnownRanges& instance() noexcept;

  int add(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind, int device) noexcept;
  void remove(int slot) noexcept;
  /// Slots that a lookup scans.
  int used() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// False if `address` is in no registered range.
  bool find(const void* address, Owner& owner) const noexcept;

 private:
  /// A sequence lock: `version` is odd while the other fields change.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::uintptr_t> start{0};
    std::atomic<std::size_t> bytes{0};
    std::atomic<const Provider*> provider{nullptr};
    std::atomic<int> kind{0};
    std::atomic<int> device{-1};
  };
  Slot slots_[room];
  std::atomic<int> used_{0};  ///< no slot at or above this index is in use
  std::mutex mutex_;          ///< held by writers
};

/// True if `address` is in a live frame of the calling thread's stack, which is never device memory. False if the
/// caller runs on another stack, as a fiber does.
bool on_this_stack(const void* address) noexcept;

}  // namespace hmc::memory
