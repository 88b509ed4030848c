// private_way: how a large buffer that lies in no window is better handed to the peers that take blocks of it.
#pragma once

#include <cstddef>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives {

/// Staged, its owner copies it once and each peer copies what it takes; read (PeerReads), each peer copies what it
/// takes by the kernel, which costs more per byte and a call.
enum class PrivateWay { stage, read, try_both };

/// `block`: what one peer takes at most. Reading pays where it takes work off one rank that the others wait for, or
/// where each byte is taken once by ranks that are all busy. Measured on two cores, time of reading to staging:
/// scatter of 64 KiB, 1 MiB and 4 MiB at 2 ranks 1.0, 0.75, 0.63; at 4 ranks 0.50, 0.34, 0.34; at 8 ranks of 64 KiB
/// and 1 MiB 0.51, 0.17; alltoall at 4 and 8 ranks of 64 KiB 1.0 to 1.1, of 128 KiB to 1 MiB 0.80 to 0.95. What
/// several take loses (allgather, broadcast: 1.05 to 1.3), and so does what one rank takes of all (gather: 1.2 to 1.7).
/// Blocks that aren't `even` differ from rank to rank, so a pair can't try both ways together.
constexpr PrivateWay private_way(schedule::Collective collective, int size, std::size_t block,
                                 bool even = true) noexcept {
  constexpr std::size_t kib = 1024;
  if (block < 32 * kib) return PrivateWay::stage;
  switch (collective) {
    case schedule::Collective::scatter: return size > 2 || block > 64 * kib ? PrivateWay::read : PrivateWay::stage;
    case schedule::Collective::alltoall:
      if (size > 2 || !even) return block >= 128 * kib ? PrivateWay::read : PrivateWay::stage;
      return PrivateWay::try_both;  // 0.55 to 2, by where the two cores lie
    case schedule::Collective::allgather: return size == 2 ? PrivateWay::try_both : PrivateWay::stage;
    default: return PrivateWay::stage;
  }
}

}  // namespace hmc::collectives
