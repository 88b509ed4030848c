// A program's run: membership in the job, options, and output.
#pragma once

#include <chrono>
#include <functional>
#include <hmc/runtime.hpp>
#include <string>

#include "bench/osu/kit/options.hpp"
#include "bench/osu/kit/report.hpp"

namespace bench {

using Clock = std::chrono::steady_clock;
inline double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

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
  void row(const std::vector<Cell>& cells) {
    progress.clear();
    report.row(cells);
  }
};

/// Parses, joins the job, prints the banner, runs `body`, and returns main's exit code: 0; 1 if a validation or HMC
/// failed; 2 for a wrong command line or too few ranks.
int run(int argc, char** argv, const Spec& spec, const std::function<void(Session&)>& body);

/// The lines "# Wire:", "# Ranks:", "# Build:" and those of the options. `peer`: the rank for "Wire"; -1: all wires of
/// all ranks. Collective.
void print_facts(Session& session, int peer = -1);

/// The common last columns of every table, in OSU's order. overlap: a latency whose minimum and maximum the program
/// prints itself.
enum class Metric { latency, bandwidth, overlap };
struct Figures {
  double main = 0;
  double min = 0;
  double max = 0;
  int iterations = 0;
  int warmup = 0;
  bool right = true;
  std::vector<double> tail;
  std::vector<double> more;  // beyond OSU's columns
  double fresh = 0;
};
void add_columns(const Options& options, Metric metric, const std::vector<Column>& more, std::vector<Column>& columns);
void add_cells(const Options& options, Metric metric, const Figures& figures, std::vector<Cell>& cells);
/// Values that a failed validation has made invalid.
void withdraw(std::vector<Cell>& cells, std::size_t first_number);

}  // namespace bench
