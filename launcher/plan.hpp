// JobPlan: all decisions that are made before a process is started: program, environment, placement.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.hpp"
#include "runtime/topology/cpu_layout.hpp"

namespace hmc::launcher {

/// Looks `name` up in `path` (the ranks' PATH) as execvp does; a name with a slash is taken as it is.
/// Throws LaunchError with status 127 if there is no such file, and 126 if it can't be executed.
std::string find_program(const std::string& name, const std::string& path);

using Environment = std::vector<std::string>;  // "NAME=value"

/// The value of a name, or null.
const char* value_of(const Environment& environment, std::string_view name) noexcept;
void set(Environment& environment, std::string_view name, std::string_view value);

/// The variables common to all ranks: `parent` without a surrounding job's variables, then the -x settings.
/// Adds a line to `warnings` for each -x VAR that isn't set. Throws LaunchError for an empty name, and for a variable
/// that hmcrun sets itself.
Environment common_environment(const char* const* parent, const std::vector<std::string>& settings,
                               std::vector<std::string>& warnings);

/// The variables of the -x settings of one program of several, with their values. `common`: of all ranks. Warns and
/// throws as common_environment.
Environment program_environment(const Environment& common, const std::vector<std::string>& settings,
                                std::vector<std::string>& warnings);

/// Sets MASTER_ADDR and MASTER_PORT, by which the ranks of torch.distributed find each other, unless the user has. The
/// port is free on this machine.
void set_master(Environment& environment, const std::string& host);

struct Place {
  int node = 0;
  int local_rank = 0;  ///< on its node
  int local_size = 1;
  topology::CpuSet cpus;  ///< empty: not bound
};

/// Ranks are assigned to nodes in blocks: rank r to node r * nodes / ranks.
int node_of(int rank, int ranks, int nodes) noexcept;

/// Indexed by rank. `layout` is used only for binding. Emulated nodes share this machine's cores, so binding counts
/// ranks over all nodes. If there are more ranks than cores, the assignment restarts at the first core, and ranks share
/// cores.
std::vector<Place> place_ranks(const Options& options, const topology::CpuLayout* layout);

/// For --report-bindings: "rank 3 (node 1): core 3 (cpus 3)".
std::string describe_place(int rank, const Place& place, const topology::CpuLayout* layout);

struct ProgramPlan {
  std::string file;       ///< the file that is executed; empty: no rank on this machine runs it
  Environment variables;  ///< in addition to the common ones, and in place of them
  std::string folder;     ///< absolute; empty: hmcrun's
};

struct JobPlan {
  Options options;
  std::vector<ProgramPlan> programs;  ///< those of the options
  Environment common;                 ///< the variables common to all ranks; those that differ by rank are added later
  std::vector<Place> places;
  std::optional<topology::CpuLayout> layout;  ///< only with --bind-to or --report-bindings
  std::vector<std::string> warnings;
  // A part of a job over several hosts; else empty.
  std::string host;   ///< this host's name on the command line
  std::string store;  ///< the addresses of the job's store

  bool is_part() const { return !host.empty(); }
  std::string label(int node) const;  ///< HMC_NODE of the ranks on a node
  int index_of(int number) const;     ///< of the rank with this number in the job; -1: not on this machine
  const ProgramPlan& program_of(int index) const { return programs[options.program_of(options.number(index))]; }
  /// The variables that differ by rank: HMC's, and those of torch's env:// method.
  Environment rank_variables(int index) const;
};

/// Throws LaunchError, with 127 or 126 when the program can't be run.
JobPlan make_plan(Options options, const char* const* parent_environment);

/// The output of --dry-run.
std::string describe_plan(const JobPlan& plan);
/// The output of --report-bindings: a line per rank.
std::string describe_bindings(const JobPlan& plan);

}  // namespace hmc::launcher
