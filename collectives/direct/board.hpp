// Board: what each rank shows the others of its team on a node. One writer per line: its owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::collectives {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t inline_bytes = 48;  ///< payload that rides in the flag's own line
inline constexpr std::size_t slot_bytes = 4096;  ///< payload that one flag covers

/// "I have arrived at collective number `sequence`, and what I called up to it makes `history`." History and payload
/// are plain: the release store of the sequence publishes them, and the acquire load of who waits for it takes them.
/// Two lines' room, since processors fetch them in pairs.
struct alignas(2 * line_bytes) ArrivalLine {
  std::atomic<std::uint64_t> sequence{0};
  std::uint64_t history = 0;
  std::byte payload[inline_bytes] = {};
};

/// Steps inside a large collective. Monotonic: waited for with >=.
enum class Phase : int { staged, reduced, finished };
inline constexpr int phase_count = 3;

struct alignas(line_bytes) PhaseLine {
  std::atomic<std::uint64_t> tag{0};
};

/// The probe of a rank's memory, its result, and rank 0's decision for its peer. Plain fields, ordered as follows:
/// - `memory` is written before the team makes its staging window, and read after;
/// - `reads_all` is written before the rank's first arrival, and read by ranks that have seen that arrival.
struct alignas(line_bytes) ProbeLine {
  transport::ReadProbe memory;
  std::uint32_t reads_all = 0;  ///< this rank has read the nonces of all others
  /// Rank 0's of a pair: TriedWays' decisions. Relaxed: who sees them late takes the other way once more.
  std::atomic<std::uint64_t> decided{0};
};

/// Of everything that a call writes at its start, used in turn: so many calls may a rank that waits for nobody be
/// ahead, before it has to let others have its core.
inline constexpr std::size_t turns = 32;

/// What a rank writes to its slot for call s stands where call s - turns had it. It writes that only when all have
/// arrived at s - turns + 1, so all have left s - turns. Of lines there are twice as many, so that those of calls that
/// are behind can still be compared.
inline constexpr std::size_t lines = 2 * turns;
struct Board {
  ArrivalLine arrivals[lines];
  PhaseLine phases[phase_count];
  ProbeLine probe;
  alignas(line_bytes) std::byte slots[turns][slot_bytes];
};

}  // namespace hmc::collectives
