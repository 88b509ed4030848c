// Detects the launcher that started this process: the innermost one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// One possible launcher, for hmcinfo and for error texts.
struct Candidate {
  std::string name;
  bool available = false;
  std::string why;  ///< "HMC_RANK=2 HMC_SIZE=4", "HMC_RANK is not set"
};

std::vector<Candidate> candidates(const base::Env& env);
/// Joins through the first available candidate. If no variable indicates a job, this process is rank 0 of 1. If a job
/// of several ranks is indicated but can't be joined, throws Error instead of continuing as rank 0 of 1.
std::unique_ptr<Bootstrap> detect(const base::Env& env);

}  // namespace hmc::bootstrap
