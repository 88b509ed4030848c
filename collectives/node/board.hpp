// Board: memory that each rank shares with the other ranks of its team on a node. One writer per line: the owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::collectives {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t inline_bytes = 48;  ///< payload inside the arrival line
inline constexpr std::size_t slot_bytes = 4096;  ///< payload of one call's slot

/// Arrival of a rank at collective number `sequence`. `history` is a hash of all calls up to it. History and payload
/// are plain fields: the release store of `sequence` publishes them, and the acquire load of a waiting rank reads them.
/// Aligned to two lines, because processors prefetch lines in pairs.
struct alignas(2 * line_bytes) ArrivalLine {
  std::atomic<std::uint64_t> sequence{0};
  std::uint64_t history = 0;
  std::byte payload[inline_bytes] = {};
};

/// Steps inside a large collective. Tags are monotonic: ranks wait for a tag with >=.
enum class Phase : int { staged, reduced, finished };
inline constexpr int phase_count = 3;

struct alignas(line_bytes) PhaseLine {
  std::atomic<std::uint64_t> tag{0};
};

/// The probe of a rank's memory, its result, and rank 0's decision for its peer. Plain fields, ordered as follows:
/// - `memory` is written before the ranks agree that the team's window is open, and read after;
/// - `reads_all` is written before the rank's first arrival, and read by ranks that have seen that arrival.
struct alignas(line_bytes) ProbeLine {
  transport::ReadProbe memory;
  std::uint32_t reads_all = 0;  ///< this rank has read the nonces of all others
  /// MethodTrials' decisions, on rank 0's board only. Relaxed: a rank that sees a decision late uses the previous
  /// method once more.
  std::atomic<std::uint64_t> decided{0};
};

/// Number of slots that a rank uses in rotation. A rank that waits for no peer may be this many calls ahead; then it
/// waits until the others have caught up.
inline constexpr std::size_t turns = 32;

/// The slot of call s reuses the slot of call s - turns. A rank writes it only when all ranks have arrived at call s -
/// turns + 1, so all have returned from call s - turns. There are twice as many lines as slots, so that the lines of
/// calls that are behind can still be compared.
inline constexpr std::size_t lines = 2 * turns;
struct Board {
  ArrivalLine arrivals[lines];  // first: a call finds its line without adding an offset
  PhaseLine phases[phase_count];
  ProbeLine probe;
  alignas(line_bytes) std::byte slots[turns][slot_bytes];
};

}  // namespace hmc::collectives
