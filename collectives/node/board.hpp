// Board: memory that a rank shares with the other ranks of its team on a node. Only the owner writes a line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::collectives {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t inline_bytes = 48;  ///< payload inside the arrival line
inline constexpr std::size_t slot_bytes = 4096;  ///< payload of one call's slot

/// Arrival of a rank at collective number `sequence`. `history` is a hash of all calls up to this one. `history` and
/// `payload` are plain fields. The release store of `sequence` publishes them; it pairs with the acquire load of a
/// waiting rank. Aligned to two lines, because processors prefetch lines in pairs.
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

/// The probe of a rank's memory, the result of its probes, and rank 0's decisions for its peer. `memory` and
/// `reads_all` are plain fields:
/// - The owner writes `memory` before the ranks agree that the team's window is open. Peers read it afterwards.
/// - The owner writes `reads_all` before its first arrival. Peers read it after they have seen that arrival.
struct alignas(line_bytes) ProbeLine {
  transport::ReadProbe memory;
  std::uint32_t reads_all = 0;  ///< 1: this rank can read the memory of all other ranks
  /// The decisions of MethodTrials. Used only on rank 0's board. Relaxed: a rank that sees a decision late uses the
  /// previous method once more.
  std::atomic<std::uint64_t> decided{0};
};

/// Number of slots per rank. Calls use them in rotation. A rank that waits for no peer may be this many calls ahead of
/// the others. Before the next call it waits for them.
inline constexpr std::size_t turns = 32;

/// Call s reuses the slot of call s - turns. A rank writes the slot only after all ranks have arrived at call
/// s - turns + 1; then all ranks have returned from call s - turns. There are twice as many lines as slots, so that a
/// rank that is behind can still compare the lines of its call.
inline constexpr std::size_t lines = 2 * turns;
struct Board {
  ArrivalLine arrivals[lines];  // first: a call finds its line without adding an offset
  PhaseLine phases[phase_count];
  ProbeLine probe;
  alignas(line_bytes) std::byte slots[turns][slot_bytes];
};

}  // namespace hmc::collectives
