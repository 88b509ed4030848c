// What ThreadSanitizer can't see: that a message orders what came before it on one side with what
// comes after it on the other.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/fences.hpp"

#ifdef HMC_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace hmc::transport::messages {

/// Between processes the socket gives this order. Between ranks of one process it does too, but TSan
/// doesn't follow bytes through the kernel, nor into a library that isn't built with it. These calls are
/// nothing in other builds. One address per sending rank, so that unrelated messages order nothing.
class TsanOrder {
 public:
  static void sends([[maybe_unused]] std::uint32_t origin) noexcept {
#ifdef HMC_TSAN
    __tsan_release(&ranks_[origin % ranks_.size()]);
#endif
  }
  static void received([[maybe_unused]] std::uint32_t origin) noexcept {
#ifdef HMC_TSAN
    __tsan_acquire(&ranks_[origin % ranks_.size()]);
#endif
  }

#ifdef HMC_TSAN
 private:
  static inline std::array<char, 64> ranks_{};  // never read or written: only their addresses serve
#endif
};

}  // namespace hmc::transport::messages
