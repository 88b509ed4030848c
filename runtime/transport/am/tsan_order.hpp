// What ThreadSanitizer can't see: that a message orders what came before it on one side with what
// comes after it on the other.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/fences.hpp"

#ifdef HMC_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace hmc::transport::am {

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

/// While it lives TSan doesn't look at what this thread gives the kernel to read. The answer to a message may come, and
/// what it allows may be done, before the call that sends it returns: an order that only the socket knows.
class KernelReads {
 public:
#ifdef HMC_TSAN
  KernelReads() noexcept { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~KernelReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  KernelReads() noexcept {}
#endif
  KernelReads(const KernelReads&) = delete;
  KernelReads& operator=(const KernelReads&) = delete;
};

}  // namespace hmc::transport::am
