// Options: hmcrun's command line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hmc::launcher {

enum class BindTo { none, core, numa };

enum class MapBy { slot, node, numa };

/// One program of the job. The ranks of a job's programs follow each other: the first program has the ranks from 0.
struct Program {
  int ranks = 0;                     ///< 0: all ranks of the job
  std::vector<std::string> command;  ///< the program and its arguments
  std::vector<std::string> env;      ///< -x of one of several programs
  std::string folder;                ///< --wdir; empty: hmcrun's
};

struct Options {
  int ranks = 0;  ///< of the job; in a part: of this host
  int nodes = 1;
  std::vector<std::string> env;  ///< -x and -genv for all ranks, as given: "VAR" or "VAR=value"
  bool tag_output = false;
  std::string output_dir;  ///< empty: none
  std::optional<std::chrono::nanoseconds> timeout;
  bool keep_going = false;
  int respawns = 0;  ///< the number of times that a failed rank is started again
  BindTo bind_to = BindTo::none;
  bool report_bindings = false;
  bool dry_run = false;
  MapBy map_by = MapBy::slot;
  std::string hosts;              ///< -H: "a:4,b:4"
  std::string host_file;          ///< --hostfile
  std::string launch_agent;       ///< the words before the host's name; empty: ssh
  int per_host = 0;               ///< -N; 0: as many as the slots
  std::vector<Program> programs;  ///< in the order of their ranks; at least one

  /// In a part of a job over several hosts; see part.hpp.
  std::vector<int> numbers;  ///< the ranks' numbers in the job; empty: 0 to ranks - 1
  int job_size = 0;          ///< 0: `ranks`
  int number(int rank) const { return numbers.empty() ? rank : numbers[static_cast<std::size_t>(rank)]; }
  int size() const { return job_size == 0 ? ranks : job_size; }
  /// The index of the program that the rank with this number in the job runs.
  std::size_t program_of(int number) const;
  /// For messages, if the job has several programs: "b" for ./b. Else empty.
  std::string program_name(int number) const;

  /// --help and --version: the text to print; no job is run.
  std::string print;
};

inline constexpr int most_ranks = 65536;

/// Options end at the first word that isn't an option. The further words belong to the program; a word ":" ends them,
/// and the next program's options follow. After "--" all words belong to the program. Throws LaunchError.
Options parse_options(const std::vector<std::string>& words);

}  // namespace hmc::launcher
