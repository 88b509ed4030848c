#include "bench/osu/kit/collective.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/osu/kit/stats.hpp"

namespace bench {
namespace {

struct Loop {
  double total_us = 0;
  std::vector<double> each_us;  // with -z
  bool right = true;
};

void spoil_if_asked(Session& session, const CollectiveCase& the_case, std::size_t bytes, int left) {
  if (session.options.corrupt_bytes == bytes && left == 0 && session.rank() == session.ranks() - 1) the_case.spoil();
}

// Writing and reading stay outside the timer.
Loop time_calls(Session& session, const CollectiveCase& the_case, std::size_t bytes, Repeats repeats) {
  const bool touches = session.options.touches();
  Loop loop;
  the_case.write(0);
  session.team.barrier();
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int iteration = i + repeats.warmup;
    if (touches) {
      the_case.write(iteration);
      if (the_case.lines_up) session.team.barrier();
    }
    const Clock::time_point start = Clock::now();
    the_case.call();
    const Clock::time_point end = Clock::now();
    if (touches) {  // before the barrier, which would hide a call that returns too early
      spoil_if_asked(session, the_case, bytes, repeats.count - 1 - i);
      loop.right &= the_case.read(iteration);
    }
    session.team.barrier();
    session.progress.tick(iteration, repeats.warmup + repeats.count);
    if (i < 0) continue;
    loop.total_us += us_between(start, end);
    if (session.options.tail) loop.each_us.push_back(us_between(start, end));
  }
  return loop;
}

// Writing and reading count: the mean, in us.
double time_with_data(Session& session, const CollectiveCase& the_case, Repeats repeats) {
  double total_us = 0;
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int iteration = i + repeats.warmup;
    session.team.barrier();
    const Clock::time_point start = Clock::now();
    the_case.write(iteration);
    the_case.call();
    the_case.read(iteration);
    const Clock::time_point end = Clock::now();
    if (i >= 0) total_us += us_between(start, end);
    session.progress.tick(iteration, repeats.warmup + repeats.count);
  }
  return total_us / repeats.count;
}

Figures figures_of(Session& session, const CollectiveCase& the_case, const Loop& loop, Repeats repeats) {
  hmc::Team& team = session.team;
  const double ranks = session.ranks();
  const double mean = loop.total_us / repeats.count;
  Figures figures;
  figures.main = sum_over_ranks(team, mean) / ranks;
  figures.min = min_over_ranks(team, mean);
  figures.max = max_over_ranks(team, mean);
  figures.iterations = repeats.count;
  figures.right = sum_over_ranks(team, loop.right ? 0 : 1) == 0;
  if (session.options.tail) {
    std::vector<double> each = sum_over_ranks(team, loop.each_us);
    std::sort(each.begin(), each.end());
    for (const int percent : tail_percents) figures.tail.push_back(percentile(each, percent) / ranks);
  }
  if (the_case.algorithm_bytes > 0) {
    const double bandwidth = the_case.algorithm_bytes / figures.main;  // bytes per us are MB per s
    figures.more = {bandwidth, bandwidth * the_case.bus_factor};
  }
  return figures;
}

Figures measure(Session& session, const CollectiveCase& the_case, std::size_t bytes) {
  const Repeats repeats = repeats_for(session.spec, session.options, bytes);
  const Loop loop = time_calls(session, the_case, bytes, repeats);
  const double with_data = session.options.fresh ? time_with_data(session, the_case, repeats) : 0;
  Figures figures = figures_of(session, the_case, loop, repeats);
  figures.fresh = session.options.fresh ? sum_over_ranks(session.team, with_data) / session.ranks() : 0;
  return figures;
}

void add_row(Session& session, std::vector<Cell> cells, const Figures& figures) {
  cells.emplace_back(figures.main);
  add_cells(session.options, figures, cells);
  if (!figures.right) {
    withdraw(cells, 0);
    session.failed = true;
  }
  session.row(cells);
}

}  // namespace

void measure_collective(Session& session, const std::vector<std::size_t>& sizes,
                        const std::function<CollectiveCase(std::size_t bytes)>& make) {
  print_facts(session);
  std::vector<Column> columns{{"# Size", "size", size_width, true}, {"Avg Latency(us)", "avg_us"}};
  add_columns(session.options, Metric::latency, {{"Alg BW(MB/s)", "algorithm_mb_s"}, {"Bus BW(MB/s)", "bus_mb_s"}},
              columns);
  session.report.columns(columns);
  for (const std::size_t bytes : sizes) {
    session.progress.begin(fmt::format("{}: {} bytes", session.spec.name, bytes));
    const CollectiveCase the_case = make(bytes);
    add_row(session, {std::uint64_t{bytes}}, measure(session, the_case, bytes));
  }
}

void measure_collective(Session& session, const CollectiveCase& the_case) {
  print_facts(session);
  // OSU's width for a table without sizes: that of its title.
  std::vector<Column> columns{{"# Avg Latency(us)", "avg_us", 17}};
  add_columns(session.options, Metric::latency, {}, columns);
  session.report.columns(columns);
  session.progress.begin(session.spec.name);
  add_row(session, {}, measure(session, the_case, 0));
}

}  // namespace bench
