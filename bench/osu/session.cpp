#include "bench/osu/session.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <bit>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <hmc/error.hpp>
#include <set>
#include <sstream>

#include "bench/kit/figures.hpp"
#include "bench/kit/ranks.hpp"

namespace bench {
namespace {

// Rank 0 prints for all ranks. Every rank closes the runtime.
int end_early(hmc::Runtime& rt, const CommandLine& line) {
  if (rt.rank() == 0) {
    fmt::print(stdout, "{}", line.out);
    fmt::print(stderr, "{}", line.err);
  }
  rt.close();
  return line.exit_code;
}

CommandLine too_few_ranks(const Spec& spec, int ranks) {
  CommandLine line;
  line.ends = true;
  line.exit_code = 2;
  line.err = fmt::format("{}: needs at least {} ranks, and there {} {}: hmcrun -np {} ...\n", spec.name, spec.min_ranks,
                         ranks == 1 ? "is" : "are", ranks, spec.min_ranks);
  return line;
}

int run_in(hmc::Runtime& rt, double init_us, const Program& program, const Options& options) {
  const Spec& spec = program.spec;
  const bool speaks = rt.rank() == 0;
  Session session{spec, options, rt, rt.world(), init_us, Report(spec, options.format, speaks), Progress(speaks)};
  program.body(session);
  session.progress.clear();
  session.report.finish();
  rt.close();
  return session.failed ? 1 : 0;
}

// The number of bits set in a file of hexadecimal words and commas; 0 if it can't be read.
std::size_t bits_in(const std::string& path) {
  std::ifstream file(path);
  int bits = 0;
  for (char c = 0; file.get(c);) {
    const int digit = std::isxdigit(static_cast<unsigned char>(c)) ? std::stoi(std::string(1, c), nullptr, 16) : 0;
    bits += std::popcount(static_cast<unsigned>(digit));
  }
  return static_cast<std::size_t>(bits);
}

// The wires that any rank uses, in alphabetical order.
std::string wires_of(Session& session, int peer) {
  std::set<std::string> mine;
  for (int other = 0; other < session.ranks(); ++other) {
    const bool meant = peer < 0 || other == peer;
    if (meant && (other != session.rank() || session.ranks() == 1)) mine.insert(session.rt.path(other).wire);
  }
  constexpr std::size_t room = 64;
  std::string words;
  for (const std::string& wire : mine) words += wire + ' ';
  words.resize(room);
  std::vector<char> all(room * static_cast<std::size_t>(session.ranks()));
  session.team.allgather(words.data(), all.data(), room);

  std::set<std::string> wires;
  for (std::size_t i = 0; i < all.size(); i += room) {
    std::istringstream list(std::string(&all[i], strnlen(&all[i], room)));
    for (std::string wire; list >> wire;) wires.insert(wire);
  }
  return fmt::format("{}", fmt::join(wires, ", "));
}

// The CPUs of this process relative to the machine: 0 all, 1 one core, 2 a part.
int binding_code() {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty() || static_cast<long>(cpus.size()) >= sysconf(_SC_NPROCESSORS_ONLN)) return 0;
  // A core with two threads is one core.
  const std::string threads =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpus.front()) + "/topology/thread_siblings";
  return cpus.size() == 1 || cpus.size() <= bits_in(threads) ? 1 : 2;
}

std::string binding_of(Session& session) {
  const double mine = binding_code();
  const double least = min_over_ranks(session.team, mine);
  if (least != max_over_ranks(session.team, mine)) return "differs between ranks";
  return least == 0 ? "none" : least == 1 ? "core" : "part of the machine";
}

double over_ranks(hmc::Team& team, double value, hmc::Op op) {
  double result = 0;
  team.allreduce(&value, &result, 1, hmc::DType::f64, op);
  return result;
}

}  // namespace

std::vector<double> sum_over_ranks(hmc::Team& team, std::vector<double> values) {
  team.allreduce(values.data(), values.data(), values.size(), hmc::DType::f64, hmc::sum);
  return values;
}
double sum_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::sum); }
double min_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::min); }
double max_over_ranks(hmc::Team& team, double value) { return over_ranks(team, value, hmc::max); }

int run(int argc, char** argv, const Program& program) try {
  const Spec& spec = program.spec;
  const CommandLine line = parse(spec, argc, argv);
  const std::int64_t start = now_ns();
  hmc::Runtime rt = hmc::Runtime::init();
  const double init_us = us_since(start);
  if (line.ends) return end_early(rt, line);
  if (rt.size() < spec.min_ranks) return end_early(rt, too_few_ranks(spec, rt.size()));
  return run_in(rt, init_us, program, line.options);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", program.spec.name, error.what());
  return 1;
}

void print_facts(Session& session, int peer) {
  const Options& options = session.options;
  Report& report = session.report;
  const int nodes = session.rt.node_count();
  report.note("Wire", "wire", wires_of(session, peer));
  report.note("Ranks", "ranks", fmt::format("{} on {} node{}", session.ranks(), nodes, nodes == 1 ? "" : "s"));
  report.note("Binding", "binding", binding_of(session));
  report.value("ranks", static_cast<std::uint64_t>(session.ranks()));
  report.value("nodes", static_cast<std::uint64_t>(nodes));
  report.note("Build", "build", HMC_BENCH_BUILD);
  if (session.spec.flags & data_flags)
    report.note("Buffers", "buffers", options.place == Place::window ? "window" : "private");
  if (!options.dtype.empty()) report.note("Datatype", "dtype", options.dtype);
  if (!options.operation.empty()) report.note("Op", "operation", options.operation);
  if (session.spec.flags & window_size_flag)
    report.value("window_size", static_cast<std::uint64_t>(options.window_size));
  if (options.in_place) report.note("In place", "in_place", "yes");
  if (options.fresh)
    report.remark(
        "Fresh: input written and result read in every iteration, outside the timer; the last column: inside");
  else if (options.validate)
    report.remark(
        "Validation: every iteration writes its input and reads its result, outside the timer: times differ from "
        "those without -c");
}

void add_common(const Options& options, Metric metric, const Figures& figures, const Row& more, Row& row) {
  const bool latency = metric != Metric::bandwidth;
  const std::string unit = latency ? "us" : "mb_s";
  const auto add = [&](const std::string& title, const std::string& key, Value value) {
    row.push_back({title, key, std::move(value)});
  };
  if (options.full && metric != Metric::overlap) {
    add(latency ? "Min Latency(us)" : "Min BW(MB/s)", "min_" + unit, figures.min);
    add(latency ? "Max Latency(us)" : "Max BW(MB/s)", "max_" + unit, figures.max);
  }
  if (options.full)
    row.push_back({"Iterations", "iterations", static_cast<std::uint64_t>(figures.iterations), count_width});
  if (options.validate) add("Validation", "validation", figures.right ? "Pass" : "Fail");
  row.push_back({.key = "warmup", .value = static_cast<std::uint64_t>(figures.warmup), .in_text = false});
  for (const int percent : {50, 90, 99}) {
    if (options.tail)
      add(fmt::format("P{} Tail {}", percent, latency ? "Lat(us)" : "BW(MB/s)"), fmt::format("p{}_{}", percent, unit),
          percentile(figures.each, percent));
  }
  if (options.full) row.insert(row.end(), more.begin(), more.end());
  if (options.fresh) add(latency ? "Fresh Inside(us)" : "Fresh Inside(MB/s)", "fresh_inside_" + unit, figures.fresh);
}

}  // namespace bench
