// A program's run: membership in the job, options, and output.
#pragma once

#include <functional>
#include <hmc/runtime.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/osu/options.hpp"
#include "bench/osu/report.hpp"

namespace bench {

struct Session {
  const Spec& spec;
  const Options& options;
  hmc::Runtime& rt;
  hmc::Team& team;
  double init_us;  // the time of Runtime::init
  Report report;
  Progress progress;
  bool failed = false;  // a validation failed; the same on every rank
  int next_data = 0;    // increases in every iteration, the same on every rank, so that consecutive data differ

  int rank() const { return team.rank(); }
  int ranks() const { return team.size(); }
  /// Prints a row. If a validation has failed on any rank, its numbers are invalid.
  void row(Row row, bool right) {
    failed = failed || !right;
    for (Field& field : row) {
      if (!right && std::holds_alternative<double>(field.value)) field.value = std::monostate{};
    }
    progress.clear();
    report.row(std::move(row));
  }
};

/// Every program: its command line and its body. One executable, hmc_osu, contains them all.
struct Program {
  Spec spec;
  std::function<void(Session&)> body;
};
std::vector<Program> collectives();  // blocking, and hmc_i... non-blocking
std::vector<Program> transfers();    // put, get, signals, messages, accumulate
std::vector<Program> atomics();

/// Parses, joins the job, prints the banner, runs the body, and returns main's exit code: 0; 1 if a validation or HMC
/// failed; 2 for a wrong command line or too few ranks.
int run(int argc, char** argv, const Program& program);

/// The lines "# Wire:", "# Ranks:", "# Build:" and those of the options. `peer`: the rank for "Wire"; -1: all wires of
/// all ranks. Collective.
void print_facts(Session& session, int peer = -1);

/// Element by element, over the ranks. Collective.
std::vector<double> sum_over_ranks(hmc::Team& team, std::vector<double> values);
double sum_over_ranks(hmc::Team& team, double value);
double min_over_ranks(hmc::Team& team, double value);
double max_over_ranks(hmc::Team& team, double value);

/// A row's values that all tables have. `main`: latency or bandwidth.
struct Figures {
  double main = 0;
  double min = 0;
  double max = 0;
  int iterations = 0;
  int warmup = 0;
  bool right = true;
  std::vector<double> each{};  // sorted: of the iterations, for the percentiles
  double fresh = 0;
};
/// The common last columns of every table, in OSU's order; `more`: those beyond OSU's. overlap: a latency whose minimum
/// and maximum the program prints itself.
enum class Metric { latency, bandwidth, overlap };
void add_common(const Options& options, Metric metric, const Figures& figures, const Row& more, Row& row);

}  // namespace bench
