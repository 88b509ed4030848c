// KnownRanges: memory that HMC allocated or mapped. A pointer into it is classified without querying a driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace hmc::memory {

class Provider;
struct Owner;
enum class PointerKind;

/// Registers a range from announce() until forget(). Call forget() before the memory is freed, so that a lookup never
/// returns the owner of freed memory. If no slot is free, the range isn't registered, and lookups query the drivers.
class KnownRange {
 public:
  KnownRange() = default;
  KnownRange(const KnownRange&) = delete;
  KnownRange& operator=(const KnownRange&) = delete;
  ~KnownRange() { forget(); }
  void announce(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind, int device) noexcept;
  void forget() noexcept;

 private:
  int slot_ = -1;
};

/// Any thread. A lookup takes no lock; its cost grows with the highest slot in use. If all slots are in use, further
/// ranges aren't registered. Lookups then query the drivers, which return the same result.
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
