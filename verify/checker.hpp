// The proof: every rank's schedule of one call, checked together without executing it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verify/case.hpp"

namespace hmc::verify {

/// Why the schedules are wrong. Ranks and steps count from 0; step is -1 where it's about a rank as a whole.
struct Counterexample {
  int rank = -1;
  long step = -1;
  std::string what;
};

/// Proves, or gives the first counterexample:
/// - what steps name exists: peers, slots, bytes of buffers; elements aren't cut;
/// - each slot is raised once and waited for once, by the ranks that the steps name;
/// - no step waits for ever;
/// - no byte is read before it's written, nor written while anybody may still read or write it: every pair of
///   accesses of which one is a put's is ordered by program order, signals and settles;
/// - each output holds the promised contributions and nothing else changed; contributions are combined in rank order
///   where the operation doesn't commute or the call is deterministic;
/// - every element of a deterministic result comes from one fold of single contributions;
/// - whoever leaves a barrier knows that all others have come to it;
/// - at its end every rank's puts have read their sources.
/// `steps` counts what was looked at.
std::optional<Counterexample> check(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                                    std::size_t* steps = nullptr);

/// "put 64 B of input+0 to scratch+128 of rank 3, slot 2"
std::string text_of(const schedule::Step& step);

}  // namespace hmc::verify
