// Mutation test of the verifier: it must detect errors that are injected in the correct schedules of every algorithm.
#pragma once

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::verify {

enum class Mistake {
  dropped_step,
  dropped_wait,
  dropped_flush,
  early_step,      ///< a step is swapped with the step before it
  shifted_from,    ///< by one element
  shifted_to,      ///< by one element
  shorter,         ///< by one element
  longer,          ///< by one element
  swapped_peer,    ///< a put goes to another rank
  swapped_slot,    ///< a put raises the slot next to its own
  swapped_order,   ///< `to op from` instead of `from op to`
  swapped_inputs,  ///< a fold reads its first two inputs in the other order
};
inline constexpr int mistake_count = 12;
const char* name_of(Mistake mistake);

/// Returns a description ("rank 2 step 3: ..."), or nullopt if no step allows this error. `ordered`: contributions
/// must be combined in rank order.
std::optional<std::string> mutate(std::vector<collectives::schedule::Schedule>& schedules, Mistake mistake,
                                  std::uint64_t element_bytes, bool ordered, std::mt19937_64& random);

struct MistakeCount {
  std::size_t made = 0;
  std::size_t refuted = 0;
  /// Accepted by the checker, and correct in each execution of replay(). Examples: a dropped flush that signals make
  /// unnecessary, an extra byte into padding, two independent steps in exchanged order.
  std::size_t harmless = 0;
  /// Accepted by the checker, but wrong in an execution: a defect of the verifier.
  std::size_t missed = 0;
};

struct MutantReport {
  std::array<MistakeCount, mistake_count> mistakes;
  std::size_t algorithms = 0;
  std::vector<std::string> missed;         ///< the first few, as text
  std::vector<std::string> harmless;       ///< one example of each kind of error, as text
  std::vector<std::string> never_refuted;  ///< algorithms without a detected error
  std::vector<std::string>
      wrong_executions;  ///< correct schedules that replay() rejects: a defect of replay or verifier
};

/// Tests every kind of error in every algorithm whose collective:name contains `only`, with teams of 2 to 9 ranks.
/// The same seed injects the same errors. Uses the first cases of each algorithm until an error is detected, then
/// about one of `thin` cases.
MutantReport test_mutants(const std::string& only, std::uint64_t seed, unsigned thin);

}  // namespace hmc::verify
