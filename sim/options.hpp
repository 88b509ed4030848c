#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/select/selector.hpp"
#include "sim/replay.hpp"

namespace hmc::sim {

/// Invalid command line.
struct UsageError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct SimOptions {
  CollectiveKind collective = CollectiveKind::allreduce;
  std::vector<std::uint64_t> bytes;
  std::vector<int> ranks;
  int per_node = 1;
  std::vector<std::string> algorithms;
  schedule::CostParameters parameters;  ///< the model without its fat tree, for algorithm selection
  std::string origin;                   ///< the source of the parameters, as text
  collectives::Selector selector;       ///< with HMC_COLL and HMC_COLL_FILE, as in hmcinfo explain
  bool deterministic = false;           ///< HMC_DETERMINISTIC
  Model model;
  ReplayLimits limits;
  std::string plot;
  bool json = false;
  bool measure = false;

  // unparsed text; finish() converts it
  std::string collective_word;
  std::vector<std::string> bytes_words, ranks_words;
  std::string algorithm_words = "all";
  std::string parameters_file;
  bool one_machine = false;
  std::optional<double> node_ns[4], network_ns[4];  // L o g G
  std::optional<double> copy_ns, reduce_ns;
  double hop_ns;
};

void declare(CLI::App& app, SimOptions& options);
/// Parses the text fields. Throws UsageError for invalid text, Error for an unreadable file.
void finish(SimOptions& options);

/// "64", "4K", "1M": powers of 1024.
std::uint64_t bytes_from(const std::string& word);

/// Measures L, o, g, G of this machine by put_signal between ranks, and prints them as flags. Starts the ranks through
/// hmcrun, unless this process is one of them.
int measure(const SimOptions& options);

}  // namespace hmc::sim
