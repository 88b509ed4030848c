// Annotations for ThreadSanitizer: a message orders the sender's earlier accesses before the receiver's later ones.
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

/// The socket provides this order between processes, and between ranks of one process. TSan doesn't follow bytes
/// through the kernel, nor into a library that isn't built with TSan. No effect in other builds. One address per
/// sending rank, so that messages of different ranks aren't ordered.
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
  static inline std::array<char, 64> ranks_{};  // never read or written: only the addresses are used
#endif
};

/// During its lifetime TSan ignores this thread's reads: TSan's interceptors perform them on behalf of the kernel. The
/// answer to a message may arrive, and the memory may be reused, before the send call returns. TSan can't see that the
/// socket orders these accesses.
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
