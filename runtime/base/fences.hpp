// Fences for plain stores (memcpy into a mapped window).
#pragma once

#include <atomic>

namespace hmc::base {

#if defined(__SANITIZE_THREAD__)
#define HMC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HMC_TSAN 1
#endif
#endif

/// Earlier stores become visible before later ones. On x86 this is only a compiler barrier, since the hardware keeps
/// the order of stores; elsewhere it is a store barrier. TSan doesn't support thread fences, so its builds use a signal
/// fence, and TSan checks only the release stores and acquire loads of signals.
inline void store_fence() noexcept {
#ifdef HMC_TSAN
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Earlier stores are visible to all other CPUs before any later load of this CPU.
inline void full_fence() noexcept {
#ifdef HMC_TSAN
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace hmc::base
