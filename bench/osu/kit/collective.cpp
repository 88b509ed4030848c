#include "bench/osu/kit/collective.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/osu/kit/stats.hpp"

namespace bench {
namespace {

struct Loop {
  double total_us = 0;
  double with_data_us = 0;      // with --fresh: of write, call and read
  std::vector<double> each_us;  // with -z
  int warmup = 0;               // so many iterations weren't counted
  bool right = true;
};

// Two forms take turns with --fresh, and each writes what the other hasn't.
enum class Form { plain, with_data };
int data_of(int iteration, Form form) { return 2 * iteration + (form == Form::with_data ? 1 : 0); }

void spoil_if_asked(Session& session, const CollectiveCase& the_case, std::size_t bytes, bool last) {
  if (session.options.corrupt_bytes == bytes && last && session.rank() == session.ranks() - 1) the_case.spoil();
}

// Writing and reading stay outside the timer.
double time_call(Session& session, const CollectiveCase& the_case, std::size_t bytes, int iteration, bool last,
                 Loop& loop) {
  const int data = data_of(iteration, Form::plain);
  const bool touches = session.options.touches();
  if (touches) {
    the_case.write(data);
    if (the_case.lines_up) session.team.barrier();
  }
  const Clock::time_point start = Clock::now();
  the_case.call();
  const Clock::time_point end = Clock::now();
  if (touches) {  // before the barrier, which would hide a call that returns too early
    spoil_if_asked(session, the_case, bytes, last);
    loop.right &= the_case.read(data);
  }
  session.team.barrier();
  return us_between(start, end);
}

// Writing and reading count.
double time_with_data(Session& session, const CollectiveCase& the_case, int iteration, Loop& loop) {
  const int data = data_of(iteration, Form::with_data);
  const Clock::time_point start = Clock::now();
  the_case.write(data);
  the_case.call();
  const bool right = the_case.read(data);
  const Clock::time_point end = Clock::now();
  loop.right &= right;
  session.team.barrier();
  return us_between(start, end);
}

// Both forms iteration by iteration, so that whatever the machine does meets both.
Loop time_calls(Session& session, const CollectiveCase& the_case, std::size_t bytes, Repeats repeats) {
  Loop loop;
  the_case.write(0);
  session.team.barrier();
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int iteration = i + repeats.warmup;
    const double us = time_call(session, the_case, bytes, iteration, i == repeats.count - 1, loop);
    const double with_data_us = session.options.fresh ? time_with_data(session, the_case, iteration, loop) : 0;
    session.progress.tick(iteration, repeats.warmup + repeats.count);
    if (i < 0) {
      ++loop.warmup;
      continue;
    }
    loop.total_us += us;
    loop.with_data_us += with_data_us;
    if (session.options.tail) loop.each_us.push_back(us);
  }
  return loop;
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
  figures.warmup = loop.warmup;
  if (session.options.fresh) figures.fresh = sum_over_ranks(team, loop.with_data_us / repeats.count) / ranks;
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
  return figures_of(session, the_case, loop, repeats);
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
