// Mutation test of the verifier: it must detect errors that are injected in the correct schedules of every algorithm.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "verify/mutate.hpp"

namespace hmc::verify {

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
