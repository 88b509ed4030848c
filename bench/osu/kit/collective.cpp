#include "bench/osu/kit/collective.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/osu/kit/figures.hpp"

namespace bench {
namespace {

/// In microseconds. Only `whole` for a call without computation.
struct Times {
  double whole = 0;
  double init = 0;     // until the request is returned
  double compute = 0;  // the computation, without communication in progress
  double wait = 0;     // from the end of the computation

  void add(const Times& other) {
    whole += other.whole;
    init += other.init;
    compute += other.compute;
    wait += other.wait;
  }
};
using TimedCall = std::function<Times()>;

struct Loop {
  Times total;
  double with_data_us = 0;      // with --fresh: write, call and read
  std::vector<double> each_us;  // with -z
  int warmup = 0;               // number of iterations that aren't counted
  bool right = true;
};

struct Pass {
  Session& session;
  const CollectiveCase& the_case;
  std::size_t bytes;
  Repeats repeats;
};

// The time excludes writing and reading.
Times time_call(const Pass& pass, const TimedCall& call, bool last, Loop& loop) {
  Session& session = pass.session;
  const int data = session.next_data++;
  const bool touches = session.options.touches();
  if (touches) {
    pass.the_case.write(data);
    if (pass.the_case.lines_up) session.team.barrier();
  }
  const Times times = call();
  if (touches) {  // before the barrier, which would hide a call that returns too early
    if (last && session.options.corrupt_bytes == pass.bytes && session.rank() == pass.the_case.spoils_on)
      pass.the_case.spoil();
    loop.right &= pass.the_case.read(data);
  }
  session.team.barrier();
  return times;
}

// The time includes writing and reading.
double time_with_data(const Pass& pass, const TimedCall& call, Loop& loop) {
  const int data = pass.session.next_data++;
  const Clock::time_point start = Clock::now();
  pass.the_case.write(data);
  call();
  const bool right = pass.the_case.read(data);
  const Clock::time_point end = Clock::now();
  loop.right &= right;
  pass.session.team.barrier();
  return us_between(start, end);
}

double time_alone(Session& session, const Work& work) {
  const Clock::time_point start = Clock::now();
  work.run();
  const double us = us_between(start, Clock::now());
  session.team.barrier();
  return us;
}

// Both forms, and the computation alone, in every iteration, so that other load on the machine affects all of them.
Loop time_calls(const Pass& pass, const TimedCall& call, const Work* work = nullptr) {
  Session& session = pass.session;
  const Repeats& repeats = pass.repeats;
  Loop loop;
  pass.the_case.write(session.next_data++);
  session.team.barrier();
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const double alone_us = work != nullptr ? time_alone(session, *work) : 0;
    Times times = time_call(pass, call, i == repeats.count - 1, loop);
    times.compute = alone_us;
    const double with_data_us = session.options.fresh ? time_with_data(pass, call, loop) : 0;
    session.progress.tick(i + repeats.warmup, repeats.warmup + repeats.count);
    if (i < 0) {
      ++loop.warmup;
      continue;
    }
    loop.total.add(times);
    loop.with_data_us += with_data_us;
    if (session.options.tail) loop.each_us.push_back(times.whole);
  }
  return loop;
}

TimedCall blocking(const CollectiveCase& the_case) {
  return [&the_case] {
    const Clock::time_point start = Clock::now();
    the_case.call();
    return Times{.whole = us_between(start, Clock::now())};
  };
}

TimedCall without_computation(const CollectiveCase& the_case) {
  return [&the_case] {
    const Clock::time_point start = Clock::now();
    the_case.begin().wait();
    return Times{.whole = us_between(start, Clock::now())};
  };
}

TimedCall beside_computation(const CollectiveCase& the_case, const Work& work) {
  return [&the_case, &work] {
    const Clock::time_point start = Clock::now();
    hmc::Request request = the_case.begin();
    const Clock::time_point begun = Clock::now();
    work.run();
    const Clock::time_point computed = Clock::now();
    request.wait();
    const Clock::time_point end = Clock::now();
    return Times{.whole = us_between(start, end), .init = us_between(start, begun), .wait = us_between(computed, end)};
  };
}

// The results that blocking and non-blocking programs have in common.
Figures figures_of(const Pass& pass, const Loop& loop, double communication_us) {
  hmc::Team& team = pass.session.team;
  const double ranks = pass.session.ranks();
  const Options& options = pass.session.options;
  Figures figures;
  figures.iterations = pass.repeats.count;
  figures.warmup = loop.warmup;
  if (options.fresh) figures.fresh = sum_over_ranks(team, loop.with_data_us / pass.repeats.count) / ranks;
  figures.right = sum_over_ranks(team, loop.right ? 0 : 1) == 0;
  if (options.tail) {
    std::vector<double> each = sum_over_ranks(team, loop.each_us);
    std::sort(each.begin(), each.end());
    for (const int percent : tail_percents) figures.tail.push_back(percentile(each, percent) / ranks);
  }
  if (pass.the_case.algorithm_bytes > 0) {
    const double bandwidth = pass.the_case.algorithm_bytes / communication_us;  // bytes per us are MB per s
    figures.more = {bandwidth, bandwidth * pass.the_case.bus_factor};
  }
  return figures;
}

struct Spread {
  double mean;
  double min;
  double max;
};
Spread over_ranks(Session& session, double us) {
  return {sum_over_ranks(session.team, us) / session.ranks(), min_over_ranks(session.team, us),
          max_over_ranks(session.team, us)};
}

void finish_row(const Pass& pass, Metric metric, const Figures& figures, std::vector<Cell> cells,
                std::size_t first_number) {
  add_cells(pass.session.options, metric, figures, cells);
  if (!figures.right) {
    withdraw(cells, first_number);
    pass.session.failed = true;
  }
  pass.session.row(cells);
}

void add_row(const Pass& pass, std::vector<Cell> cells) {
  const std::size_t first_number = cells.size();
  const Loop loop = time_calls(pass, blocking(pass.the_case));
  const Spread spread = over_ranks(pass.session, loop.total.whole / pass.repeats.count);
  Figures figures = figures_of(pass, loop, spread.mean);
  figures.min = spread.min;
  figures.max = spread.max;
  cells.emplace_back(spread.mean);
  finish_row(pass, Metric::latency, figures, std::move(cells), first_number);
}

void add_overlap_row(const Pass& pass, std::vector<Cell> cells) {
  Session& session = pass.session;
  const double count = pass.repeats.count;
  const std::size_t first_number = cells.size();
  const Loop alone = time_calls(pass, without_computation(pass.the_case));
  const Spread pure = over_ranks(session, alone.total.whole / count);
  const Work work(pure.mean);
  const Loop beside = time_calls(pass, beside_computation(pass.the_case, work), &work);
  const auto mean = [&](double us) { return sum_over_ranks(session.team, us / count) / session.ranks(); };
  const double overall = mean(beside.total.whole);
  const double compute = mean(beside.total.compute);
  Figures figures = figures_of(pass, beside, pure.mean);
  figures.right = figures.right && sum_over_ranks(session.team, alone.right ? 0 : 1) == 0;
  cells.insert(cells.end(), {overall, compute});
  if (session.options.full) cells.insert(cells.end(), {mean(beside.total.init), mean(beside.total.wait)});
  cells.emplace_back(pure.mean);
  if (session.options.full) cells.insert(cells.end(), {pure.min, pure.max});
  cells.emplace_back(overlap_percent(overall, compute, pure.mean));
  finish_row(pass, Metric::overlap, figures, std::move(cells), first_number);
}

void measure(Session& session, const CollectiveCase& the_case, std::size_t bytes, std::vector<Cell> cells) {
  const Pass pass{session, the_case, bytes, repeats_for(session.spec, session.options, bytes)};
  return the_case.begin ? add_overlap_row(pass, std::move(cells)) : add_row(pass, std::move(cells));
}

void add_main_columns(Session& session, std::vector<Column>& columns, const std::vector<Column>& more) {
  const Options& options = session.options;
  const auto add = [&](const char* title, const char* key) { columns.push_back({title, key}); };
  if (!(session.spec.flags & overlap_flag)) {
    if (columns.empty())
      columns.push_back({"# Avg Latency(us)", "avg_us", 17});  // OSU's width for a table without sizes: its title's
    else
      add("Avg Latency(us)", "avg_us");
    return add_columns(options, Metric::latency, more, columns);
  }
  if (columns.empty())
    columns.push_back({"# Overall(us)", "overall_us", 13});
  else
    add("Overall(us)", "overall_us");
  add("Compute(us)", "compute_us");
  if (options.full) add("Coll. Init(us)", "init_us");
  if (options.full) add("Wait(us)", "wait_us");
  add("Pure Comm.(us)", "pure_us");
  if (options.full) add("Min Comm.(us)", "min_pure_us");
  if (options.full) add("Max Comm.(us)", "max_pure_us");
  add("Overlap(%)", "overlap_percent");
  add_columns(options, Metric::overlap, more, columns);
}

void begin_table(Session& session, std::vector<Column> columns, const std::vector<Column>& more) {
  print_facts(session);
  if (session.spec.flags & overlap_flag)
    session.report.remark("Overall = Coll. Init + Compute + Wait; Compute and Pure Comm. are measured alone");
  add_main_columns(session, columns, more);
  session.report.columns(columns);
}

}  // namespace

void measure_collective(Session& session, const std::vector<std::size_t>& sizes,
                        const std::function<CollectiveCase(std::size_t bytes)>& make) {
  begin_table(session, {{"# Size", "size", size_width, true}},
              {{"Alg BW(MB/s)", "algorithm_mb_s"}, {"Bus BW(MB/s)", "bus_mb_s"}});
  for (const std::size_t bytes : sizes) {
    session.progress.begin(fmt::format("{}: {} bytes", session.spec.name, bytes));
    measure(session, make(bytes), bytes, {std::uint64_t{bytes}});
  }
}

void measure_collective(Session& session, const CollectiveCase& the_case) {
  begin_table(session, {}, {});
  session.progress.begin(session.spec.name);
  measure(session, the_case, 0, {});
}

}  // namespace bench
