// A trial of sharing device memory with another process: this program, started again.
#pragma once

#include <string>

#include "runtime/memory/provider.hpp"

namespace hmc::launcher {

struct TrialResult {
  bool passed = false;
  std::string why;             ///< why not
  double gigabytes_per_s = 0;  ///< the other process reading the shared memory into its own, the best of a few
  double latency_us = 0;       ///< of 8 bytes, waited for
};

/// Never throws: what goes wrong is the reason. Takes as long as a process needs to start.
TrialResult try_sharing(const memory::Provider& provider, memory::SharingKind kind);

/// What the other process does: `hmcinfo share-trial NAME`, the ticket on its standard input.
int run_share_trial(const std::string& provider_name);

}  // namespace hmc::launcher
