// The choices of other libraries for a call, in terms of HMC's schedules.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::sim::rules {

namespace schedule = hmc::collectives::schedule;

/// A collective on 4-byte elements with a commutative operation, root 0.
struct LibraryCall {
  CollectiveKind collective;
  std::uint64_t bytes;  ///< of one rank's block in gather, scatter, allgather, alltoall, reduce_scatter
  schedule::Shape shape;
};

enum class PhaseScope { all, node, leaders };  ///< the team; the ranks of one node; one rank of each node

/// One of HMC's schedules. An algorithm that consists of several calls has several phases in sequence.
struct ReplayPhase {
  PhaseScope scope;
  CollectiveKind collective;
  std::uint64_t bytes;
  std::string_view algorithm;
};

struct LibraryChoice {
  std::string theirs;               ///< the library's name of the algorithm
  std::vector<ReplayPhase> phases;  ///< empty: HMC has no similar schedule
  bool similar = false;             ///< the phases are a similar algorithm, not the same one
};

/// Open MPI 4.1.4, coll/tuned, fixed decisions.
LibraryChoice openmpi(const LibraryCall& question);
/// MPICH 4.0.2, ch4, compiled-in selection.
LibraryChoice mpich(const LibraryCall& question);

/// Searches "3 <4096, 4 <8192, 6" for the first word whose bound holds. "<=" includes equality.
inline std::string_view pick(std::string_view table, std::uint64_t value) {
  while (!table.empty()) {
    const std::size_t comma = table.find(", ");
    const std::string_view entry = table.substr(0, comma);
    const std::size_t space = entry.find(' ');
    if (space == std::string_view::npos) return entry;
    std::string_view bound = entry.substr(space + 2);
    const bool inclusive = bound.front() == '=';
    if (inclusive) bound.remove_prefix(1);
    std::uint64_t limit = 0;
    std::from_chars(bound.data(), bound.data() + bound.size(), limit);
    if (value < limit || (inclusive && value == limit)) return entry.substr(0, space);
    if (comma == std::string_view::npos) break;
    table.remove_prefix(comma + 2);
  }
  throw std::logic_error("a rule table without a last word");
}
/// The largest power of two that isn't larger.
constexpr int power_of_two_below(int ranks) {
  int power = 1;
  while (power <= ranks / 2) power *= 2;
  return power;
}

}  // namespace hmc::sim::rules
