#include "bench/osu/kit/session.hpp"

#include <fmt/format.h>

#include <sched.h>
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

#include "bench/osu/kit/figures.hpp"

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

int run_in(hmc::Runtime& rt, double init_us, const Spec& spec, const Options& options,
           const std::function<void(Session&)>& body) {
  const bool speaks = rt.rank() == 0;
  Session session{spec, options, rt, rt.world(), init_us, Report(spec, options.format, speaks), Progress(speaks)};
  body(session);
  session.progress.clear();
  session.report.finish();
  rt.close();
  return session.failed ? 1 : 0;
}

// The number of bits set in a file of hexadecimal words and commas; 0 if it can't be read.
long bits_in(const std::string& path) {
  std::ifstream file(path);
  long bits = 0;
  for (char c = 0; file.get(c);) {
    const int digit = std::isxdigit(static_cast<unsigned char>(c)) ? std::stoi(std::string(1, c), nullptr, 16) : 0;
    bits += std::popcount(static_cast<unsigned>(digit));
  }
  return bits;
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
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  const long count = CPU_COUNT(&allowed);
  if (count >= sysconf(_SC_NPROCESSORS_ONLN)) return 0;
  std::size_t first = 0;
  while (first < CPU_SETSIZE && !CPU_ISSET(first, &allowed)) ++first;
  // A core with two threads is one core.
  const std::string threads = "/sys/devices/system/cpu/cpu" + std::to_string(first) + "/topology/thread_siblings";
  return count == 1 || count <= bits_in(threads) ? 1 : 2;
}

std::string binding_of(Session& session) {
  const double mine = binding_code();
  const double least = min_over_ranks(session.team, mine);
  if (least != max_over_ranks(session.team, mine)) return "differs between ranks";
  return least == 0 ? "none" : least == 1 ? "core" : "part of the machine";
}

}  // namespace

int run(int argc, char** argv, const Spec& spec, const std::function<void(Session&)>& body) try {
  const CommandLine line = parse(spec, argc, argv);
  const Clock::time_point start = Clock::now();
  hmc::Runtime rt = hmc::Runtime::init();
  const double init_us = us_between(start, Clock::now());
  if (line.ends) return end_early(rt, line);
  if (rt.size() < spec.min_ranks) return end_early(rt, too_few_ranks(spec, rt.size()));
  return run_in(rt, init_us, spec, line.options, body);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", spec.name, error.what());
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

void add_columns(const Options& options, Metric metric, const std::vector<Column>& more, std::vector<Column>& columns) {
  const bool latency = metric != Metric::bandwidth;
  const std::string unit = latency ? "us" : "mb_s";
  if (options.full && metric != Metric::overlap) {
    columns.push_back({latency ? "Min Latency(us)" : "Min BW(MB/s)", "min_" + unit});
    columns.push_back({latency ? "Max Latency(us)" : "Max BW(MB/s)", "max_" + unit});
  }
  if (options.full) columns.push_back({"Iterations", "iterations", count_width});
  if (options.validate) columns.push_back({"Validation", "validation"});
  columns.push_back({.key = "warmup", .in_text = false});
  for (const int percent : tail_percents) {
    if (options.tail)
      columns.push_back({fmt::format("P{} Tail {}", percent, latency ? "Lat(us)" : "BW(MB/s)"),
                         fmt::format("p{}_{}", percent, unit)});
  }
  if (options.full) columns.insert(columns.end(), more.begin(), more.end());
  if (options.fresh) columns.push_back({latency ? "Fresh Inside(us)" : "Fresh Inside(MB/s)", "fresh_inside_" + unit});
}

void add_cells(const Options& options, Metric metric, const Figures& figures, std::vector<Cell>& cells) {
  if (options.full && metric != Metric::overlap) cells.insert(cells.end(), {figures.min, figures.max});
  if (options.full) cells.emplace_back(static_cast<std::uint64_t>(figures.iterations));
  if (options.validate) cells.emplace_back(figures.right ? "Pass" : "Fail");
  cells.emplace_back(static_cast<std::uint64_t>(figures.warmup));
  if (options.tail) cells.insert(cells.end(), figures.tail.begin(), figures.tail.end());
  if (options.full) cells.insert(cells.end(), figures.more.begin(), figures.more.end());
  if (options.fresh) cells.emplace_back(figures.fresh);
}

void withdraw(std::vector<Cell>& cells, std::size_t first_number) {
  for (std::size_t i = first_number; i < cells.size(); ++i) {
    if (std::holds_alternative<double>(cells[i])) cells[i] = std::monostate{};
  }
}

}  // namespace bench
