// The verifier's own test: mistakes planted in the correct schedules of every algorithm must be refuted.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "verify/mutate.hpp"

namespace hmc::verify {

struct MistakeCount {
  std::size_t made = 0;
  std::size_t refuted = 0;
  /// Accepted although changed (a flush that signals make needless, a byte more into padding, steps that may change
  /// places), and never wrong in any execution of replay().
  std::size_t harmless = 0;
  /// Accepted, and wrong in an execution: a hole in the verifier.
  std::size_t missed = 0;
};

struct MutantReport {
  std::array<MistakeCount, mistake_count> mistakes;
  std::size_t algorithms = 0;
  std::vector<std::string> missed;         ///< the first few, as text
  std::vector<std::string> harmless;       ///< one of each mistake, as text
  std::vector<std::string> never_refuted;  ///< algorithms without a refuted mistake
  std::vector<std::string>
      wrong_executions;  ///< correct schedules that replay() found wrong: a hole in replay or verifier
};

/// Every algorithm whose collective:name contains `only`, every kind of mistake, in teams of 2 to 9. The same seed
/// plants the same mistakes. Uses the first cases of each algorithm until a mistake is refuted, and then about one in
/// `thin`.
MutantReport test_mutants(const std::string& only, std::uint64_t seed, unsigned thin);

}  // namespace hmc::verify
