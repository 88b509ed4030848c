// JobPlan: all decisions that are made before a process is started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/environment.hpp"
#include "launcher/options.hpp"
#include "launcher/placement.hpp"
#include "runtime/topology/cpu_layout.hpp"

namespace hmc::launcher {

struct JobPlan {
  Options options;
  std::string program;  ///< the file that is executed
  Environment common;   ///< the variables common to all ranks; those that differ by rank are added later
  std::vector<Place> places;
  std::optional<topology::CpuLayout> layout;  ///< only with --bind-to or --report-bindings
  std::vector<std::string> warnings;
};

/// Throws LaunchError, with 127 or 126 when the program can't be run.
JobPlan make_plan(Options options, const char* const* parent_environment);

/// HMC_NODE of the ranks on a node.
std::string node_label(int node);

/// The output of --dry-run.
std::string describe_plan(const JobPlan& plan);
/// The output of --report-bindings: a line per rank.
std::string describe_bindings(const JobPlan& plan);

}  // namespace hmc::launcher
