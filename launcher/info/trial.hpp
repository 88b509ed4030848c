// A trial of sharing device memory with another process, which is a second instance of this program.
#pragma once

#include <string>

#include "runtime/memory/provider.hpp"

namespace hmc::launcher {

struct TrialResult {
  bool passed = false;
  std::string why;             ///< why not
  double gigabytes_per_s = 0;  ///< of the other process's copy from the shared memory to its own; best of several
  double latency_us = 0;       ///< of a synchronous copy of 8 bytes
};

/// Never throws; returns the reason of a failure. Takes about as long as the start of a process.
TrialResult try_sharing(const memory::Provider& provider, memory::SharingKind kind);

/// The other process: `hmcinfo share-trial NAME`, with the ticket on its standard input.
int run_share_trial(const std::string& provider_name);

}  // namespace hmc::launcher
