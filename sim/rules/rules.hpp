// What other libraries would take for a call, said in terms of our schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::sim::rules {

namespace schedule = hmc::collectives::schedule;

/// A collective over 4-byte elements by a commutative operation, root 0.
struct Question {
  schedule::Collective collective;
  std::uint64_t bytes;  ///< of one rank's block in gather, scatter, allgather, alltoall, reduce_scatter
  schedule::Shape shape;
};

enum class Scope { all, node, leaders };  ///< the team; the ranks of one node; one rank of each node

/// One of our schedules. What they do in several calls is several, one after the other.
struct Phase {
  Scope scope;
  schedule::Collective collective;
  std::uint64_t bytes;
  std::string_view algorithm;
};

struct Choice {
  std::string theirs;         ///< as they name it
  std::vector<Phase> phases;  ///< empty: no schedule of ours is near
  bool alike = false;         ///< the phases aren't the same algorithm, but one of the same shape
};

/// Open MPI 4.1.4, coll/tuned with its fixed decisions.
Choice openmpi(const Question& question);
/// MPICH 4.0.2, ch4, with the selection that is compiled in.
Choice mpich(const Question& question);

/// Walks "3 <4096, 4 <8192, 6": the first word whose bound holds. "<=" bounds hold when equal.
std::string_view pick(std::string_view table, std::uint64_t value);
/// The largest power of two that isn't larger.
constexpr int power_of_two_below(int ranks) {
  int power = 1;
  while (power <= ranks / 2) power *= 2;
  return power;
}

}  // namespace hmc::sim::rules
