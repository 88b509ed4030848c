// Options: hmcrun's command line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hmc::launcher {

enum class BindTo { none, core, numa };

enum class MapBy { slot, node, numa };

struct Options {
  int ranks = 0;  ///< of the job; in a part: of this host
  int nodes = 1;
  std::vector<std::string> env;  ///< -x, as given: "VAR" or "VAR=value"
  bool tag_output = false;
  std::string output_dir;  ///< empty: none
  std::optional<std::chrono::nanoseconds> timeout;
  bool keep_going = false;
  int respawns = 0;  ///< the number of times that a failed rank is started again
  BindTo bind_to = BindTo::none;
  bool report_bindings = false;
  bool dry_run = false;
  MapBy map_by = MapBy::slot;
  std::string hosts;                 ///< -H: "a:4,b:4"
  std::string host_file;             ///< --hostfile
  std::string launch_agent;          ///< the words before the host's name; empty: ssh
  int per_host = 0;                  ///< -N; 0: as many as the slots
  std::vector<std::string> command;  ///< the program and its arguments

  /// In a part of a job over several hosts; see part.hpp.
  std::vector<int> numbers;  ///< the ranks' numbers in the job; empty: 0 to ranks - 1
  int job_size = 0;          ///< 0: `ranks`
  int number(int rank) const { return numbers.empty() ? rank : numbers[static_cast<std::size_t>(rank)]; }
  int size() const { return job_size == 0 ? ranks : job_size; }

  /// --help and --version: the text to print; no job is run.
  std::string print;
};

inline constexpr int most_ranks = 65536;

/// Options end at the first word that isn't an option; all further words belong to the program. Throws LaunchError.
Options parse_options(const std::vector<std::string>& words);

}  // namespace hmc::launcher
