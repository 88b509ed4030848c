// Head: the user's hmcrun, in a job over several hosts.
#pragma once

#include <vector>

#include "launcher/hosts.hpp"
#include "launcher/options.hpp"
#include "launcher/plan.hpp"

namespace hmc::launcher {

/// Starts `hmcrun --part` on each host by the launch agent (ssh), runs the job's store, forwards signals and rank 0's
/// input, and returns the exit status. Each part handles its ranks as hmcrun does on one machine, and prints which rank
/// failed. Throws LaunchError.
int run_on_hosts(const Options& options, const std::vector<HostRanks>& hosts, const Environment& environment,
                 int signals);

}  // namespace hmc::launcher
