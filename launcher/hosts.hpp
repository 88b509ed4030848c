// The hosts of a job: their list, and the ranks of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.hpp"
#include "launcher/plan.hpp"

namespace hmc::launcher {

struct Host {
  std::string name;
  int slots = 1;
  bool has_slots = false;  ///< the number was given
};

/// "a:4,b": the slots default to 1. A host that is named twice has the slots of both. Throws UsageError.
std::vector<Host> parse_host_list(std::string_view text);
/// A host per line, "a:4" or "a slots=4"; `#` begins a comment. Throws UsageError with the line's number.
std::vector<Host> parse_host_file(std::string_view text, std::string_view name);
/// SLURM_TASKS_PER_NODE or SLURM_JOB_CPUS_PER_NODE: "4(x2),1" is 4, 4, 1. Empty if it isn't valid.
std::vector<int> parse_slurm_counts(std::string_view text);

/// From -H, --hostfile, or the Slurm allocation in which hmcrun was started outside of a step. Empty: this machine
/// only. In an allocation `options.launch_agent` becomes srun.
std::vector<Host> find_hosts(Options& options, const Environment& environment);

struct HostRanks {
  std::string host;
  std::vector<int> numbers;  ///< ascending
};
/// Assigns ranks to hosts; sets options.ranks if -np wasn't given. Hosts without ranks are left out. Throws UsageError
/// if the slots don't suffice.
std::vector<HostRanks> assign_ranks(const std::vector<Host>& hosts, Options& options);

/// True if the name means this machine.
bool is_this_machine(const std::string& host);

}  // namespace hmc::launcher
