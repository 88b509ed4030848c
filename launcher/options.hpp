// Options: hmcrun's command line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hmc::launcher {

enum class BindTo { none, core, numa };

struct Options {
  int ranks = 0;
  int nodes = 1;
  std::vector<std::string> env;  ///< -x, as given: "VAR" or "VAR=value"
  bool tag_output = false;
  std::string output_dir;  ///< empty: none
  std::optional<std::chrono::nanoseconds> timeout;
  bool keep_going = false;
  int respawns = 0;  ///< the number of failed ranks that are started again
  BindTo bind_to = BindTo::none;
  bool report_bindings = false;
  bool dry_run = false;
  std::vector<std::string> command;  ///< the program and its arguments

  /// --help and --version: the text to print; no job is run.
  std::string print;
};

inline constexpr int most_ranks = 65536;

/// Options end at the first word that isn't an option; all further words belong to the program. Throws LaunchError.
Options parse_options(const std::vector<std::string>& words);

}  // namespace hmc::launcher
