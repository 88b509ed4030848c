// The proof: every rank's schedule of one call, checked together without executing it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verify/cases.hpp"

namespace hmc::verify {

/// The first error found. Ranks and steps count from 0; step is -1 for an error of a whole rank.
struct Counterexample {
  int rank = -1;
  long step = -1;
  std::string what;
};

/// Proves the following properties, or returns the first counterexample:
/// - all peers, slots and buffer ranges of the steps exist; every range has whole elements;
/// - each slot is raised once and waited for once, by the ranks that the steps name;
/// - no step waits forever;
/// - no byte is read before it is written, or written while a rank may still read or write it. If one of two accesses
///   is by a put or a get, program order, signals and flushes order them;
/// - each output holds the required contributions and nothing else changed; contributions are combined in rank order
///   where the operation doesn't commute or the call is deterministic;
/// - every element of a deterministic result comes from one fold of single contributions;
/// - a rank that leaves a barrier knows that all others have entered it;
/// - at its end each rank's puts are locally complete.
/// `steps` counts the steps that were checked.
std::optional<Counterexample> check(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                                    std::size_t* steps = nullptr);

/// "put 64 B of input+0 to scratch+128 of rank 3, slot 2"
std::string text_of(const schedule::Step& step);

}  // namespace hmc::verify
