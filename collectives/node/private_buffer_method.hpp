// private_buffer_method: the faster method to pass a large private buffer (in no window) to the peers that take blocks
// of it.
#pragma once

#include <cstddef>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives {

/// - stage: the owner copies the buffer once, and each peer copies what it takes.
/// - read (PeerReads): each peer copies what it takes through the kernel, which costs a system call and more per byte.
enum class PrivateBufferMethod { stage, read, try_both };

/// `block`: the most that one peer takes. Reading is faster if it takes work off one rank that the others wait for, or
/// if all ranks are busy and each byte is taken once.
///
/// Measured on two cores, time of reading divided by time of staging:
/// - scatter: 2 ranks, 64 KiB, 1 MiB and 4 MiB: 1.0, 0.75, 0.63; 4 ranks: 0.50, 0.34, 0.34; 8 ranks, 64 KiB and 1 MiB:
///   0.51, 0.17;
/// - alltoall, 4 and 8 ranks: 64 KiB: 1.0 to 1.1; 128 KiB to 1 MiB: 0.80 to 0.95;
/// - bytes that several ranks take (allgather, broadcast): 1.05 to 1.3; one rank takes all (gather): 1.2 to 1.7.
///
/// Not `even`: block lengths differ between ranks, so a pair can't try both methods together.
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
