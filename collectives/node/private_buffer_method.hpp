// private_buffer_method: selects the method by which peers copy blocks from a large private buffer (in no window).
#pragma once

#include <cstddef>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives {

/// - stage: the owner copies the buffer to its staging, and each peer copies its blocks from there.
/// - read (PeerReads): each peer copies its blocks through the kernel. This costs a system call and more time per byte.
/// - try_both: MethodTrials measures both.
enum class PrivateBufferMethod { stage, read, try_both };

/// `block`: the largest number of bytes that one peer copies. Reading is faster in two cases:
/// - it reduces the work of one rank for which all others wait;
/// - all ranks are busy, and one peer reads each byte.
///
/// Measured on two cores, time of reading divided by time of staging:
/// - scatter: 2 ranks, 64 KiB, 1 MiB and 4 MiB: 1.0, 0.75, 0.63; 4 ranks: 0.50, 0.34, 0.34; 8 ranks, 64 KiB and 1 MiB:
///   0.51, 0.17;
/// - alltoall, 4 and 8 ranks: 64 KiB: 1.0 to 1.1; 128 KiB to 1 MiB: 0.80 to 0.95;
/// - several ranks read the same bytes (allgather, broadcast): 1.05 to 1.3; one rank reads all (gather): 1.2 to 1.7.
///
/// `even` is false if block lengths differ between ranks. Then two ranks can't run the same trial.
constexpr PrivateBufferMethod private_buffer_method(schedule::Collective collective, int size, std::size_t block,
                                                    bool even = true) noexcept {
  constexpr std::size_t kib = 1024;
  if (block < 32 * kib) return PrivateBufferMethod::stage;
  switch (collective) {
    case schedule::Collective::scatter:
      return size > 2 || block > 64 * kib ? PrivateBufferMethod::read : PrivateBufferMethod::stage;
    case schedule::Collective::alltoall:
      if (size > 2 || !even) return block >= 128 * kib ? PrivateBufferMethod::read : PrivateBufferMethod::stage;
      return PrivateBufferMethod::try_both;  // 0.55 to 2, depending on the two cores
    case schedule::Collective::allgather: return size == 2 ? PrivateBufferMethod::try_both : PrivateBufferMethod::stage;
    default: return PrivateBufferMethod::stage;
  }
}

}  // namespace hmc::collectives
