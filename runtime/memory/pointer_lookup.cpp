#include "runtime/memory/pointer_lookup.hpp"

#include <pthread.h>

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

KnownRanges& KnownRanges::instance() noexcept {
  static KnownRanges* const one = new KnownRanges;  // never destroyed: memory may be freed after main
  return *one;
}

int KnownRanges::add(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind,
                     int device) noexcept {
  const std::scoped_lock lock(mutex_);
  for (int i = 0; i < room; ++i) {
    Slot& slot = slots_[i];
    if (slot.bytes.load(std::memory_order_relaxed) != 0) continue;
    const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
    slot.version.store(version + 1, std::memory_order_relaxed);
    // Each store is a release: it pairs with the acquire loads in find(). If find() loads one of these values, its
    // second load of the version returns at least the odd version.
    slot.start.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_release);
    slot.provider.store(provider, std::memory_order_release);
    slot.kind.store(static_cast<int>(kind), std::memory_order_release);
    slot.device.store(device, std::memory_order_release);
    slot.bytes.store(bytes, std::memory_order_release);
    slot.version.store(version + 2, std::memory_order_release);
    // Release: pairs with the acquire load in find().
    if (used_.load(std::memory_order_relaxed) <= i) used_.store(i + 1, std::memory_order_release);
    return i;
  }
  return -1;
}

void KnownRanges::remove(int which) noexcept {
  const std::scoped_lock lock(mutex_);
  Slot& slot = slots_[which];
  const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  slot.bytes.store(0, std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
  // The new value stays above every slot in use, because all writers hold the mutex. A thread with a pointer into the
  // range of slot i has synchronized with the thread that added it, so it loads the value stored by add() or a later
  // one. All these values are above i while the range is registered. Release: as in add().
  int used = used_.load(std::memory_order_relaxed);
  while (used > 0 && slots_[used - 1].bytes.load(std::memory_order_relaxed) == 0) --used;
  used_.store(used, std::memory_order_release);
}

bool KnownRanges::find(const void* address, Owner& owner) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const int used = used_.load(std::memory_order_acquire);
  for (int i = 0; i < used; ++i) {
    const Slot& slot = slots_[i];
    // Each load is an acquire: it pairs with the release stores in add() and remove(), and orders the later loads after
    // it. So the last load of the version may be relaxed. A range that changes meanwhile can't contain the caller's
    // memory, which stays registered during the call, so it is correct to skip the range.
    const std::uint32_t version = slot.version.load(std::memory_order_acquire);
    const std::uintptr_t start = slot.start.load(std::memory_order_acquire);
    if (at - start >= slot.bytes.load(std::memory_order_acquire)) continue;
    const Provider* const provider = slot.provider.load(std::memory_order_acquire);
    const int kind = slot.kind.load(std::memory_order_acquire);
    const int device = slot.device.load(std::memory_order_acquire);
    if (version % 2 != 0 || slot.version.load(std::memory_order_relaxed) != version) continue;
    owner = {provider, {static_cast<PointerKind>(kind), device}};
    return true;
  }
  return false;
}

void KnownRange::announce(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind,
                          int device) noexcept {
  forget();
  if (bytes > 0) slot_ = KnownRanges::instance().add(start, bytes, provider, kind, device);
}

void KnownRange::forget() noexcept {
  if (slot_ >= 0) KnownRanges::instance().remove(slot_);
  slot_ = -1;
}

namespace {

struct Stack {
  std::uintptr_t low = 0, top = 0;
  bool holds(std::uintptr_t address) const noexcept { return address >= low && address < top; }
};

Stack stack_of_thread() noexcept {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t bytes = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &low, &bytes) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!known) return {};
  const auto start = reinterpret_cast<std::uintptr_t>(low);
  return {start, start + bytes};
}

}  // namespace

// A fiber runs on a stack other than the thread's. Any memory may be between its frame and the thread's stack, so the
// result is false for a fiber.
bool on_this_stack(const void* address) noexcept {
  thread_local const Stack stack = stack_of_thread();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return stack.holds(frame) && at >= frame && at < stack.top;
}

}  // namespace hmc::memory
