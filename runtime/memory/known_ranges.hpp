// KnownRanges: memory that HMC itself gave or mapped. A pointer into it is classified without asking any driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace hmc::memory {

class Provider;
struct Owner;
enum class PointerKind;

/// Makes a range known from announce() until forget(), which comes before the memory is given back: an answer is
/// never one about memory that was there before. A range that finds no place isn't known, and drivers are asked.
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

/// Any thread; a look takes no lock, and costs as much as the highest slot in use. Where all are in use a range isn't
/// known: drivers are asked, who know it too.
class KnownRanges {
 public:
  static constexpr int room = 64;
  static KnownRanges& instance() noexcept;

  int add(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind, int device) noexcept;
  void remove(int slot) noexcept;
  /// Slots that a look goes over.
  int used() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// Ranges that found no slot, so far.
  std::uint64_t turned_away() const noexcept { return turned_away_.load(std::memory_order_relaxed); }
  /// False where nothing is known of the address.
  bool find(const void* address, Owner& owner) const noexcept;

 private:
  /// `version` is odd while the rest changes.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::uintptr_t> start{0};
    std::atomic<std::size_t> bytes{0};
    std::atomic<const Provider*> provider{nullptr};
    std::atomic<int> kind{0};
    std::atomic<int> device{-1};
  };
  Slot slots_[room];
  std::atomic<int> used_{0};  ///< slots from the first: behind them none is in use
  std::atomic<std::uint64_t> turned_away_{0};
  std::mutex mutex_;  ///< of those who change it
};

/// In a frame of this very thread that is still open: that is never a device's memory. False on a stack that isn't the
/// thread's own, as a fiber's.
bool on_this_stack(const void* address) noexcept;

}  // namespace hmc::memory
