#include "bench/osu/kit/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "bench/osu/kit/pattern.hpp"
#include "bench/osu/kit/stats.hpp"

namespace bench {
namespace {

struct Loop {
  double total_us = 0;          // of the transfers, on sides that are timed
  double data_us = 0;           // of writing and reading
  std::vector<double> each_us;  // with -f or -z
  bool right = true;
};

// The loop, and its time. Where somebody watches it stops a hundred times, with its clock, to say how far it is.
double run_loop(Session& session, Side& side, const TransferCase& the_case, int count, int done, int of) {
  const int slices = session.progress.on() ? std::clamp(count, 1, 100) : 1;
  double us = 0;
  for (int slice = 0; slice < slices; ++slice) {
    const auto at = [&](int s) { return static_cast<int>(static_cast<long>(count) * s / slices); };
    const Clock::time_point start = Clock::now();
    the_case.loop(side, the_case.bytes, at(slice + 1) - at(slice));
    us += us_between(start, Clock::now());
    session.progress.tick(done + at(slice + 1), of);
  }
  return us;
}

// The fastest form: one clock around the whole loop.
Loop time_whole(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  if (side.writes) the_case.write(0);
  session.team.barrier();
  if (side.acts) {
    const int all = repeats.warmup + repeats.count;
    run_loop(session, side, the_case, repeats.warmup, 0, all);
    const double us = run_loop(session, side, the_case, repeats.count, repeats.warmup, all);
    if (side.timed) loop.total_us = us;
  }
  session.team.barrier();
  return loop;
}

// A clock around each repeat: for minimum, maximum and percentiles.
Loop time_each(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  loop.each_us.resize(static_cast<std::size_t>(repeats.count));
  if (side.writes) the_case.write(0);
  session.team.barrier();
  if (side.acts) {
    const int all = repeats.warmup + repeats.count;
    run_loop(session, side, the_case, repeats.warmup, 0, all);
    int done = repeats.warmup;
    for (double& each : loop.each_us) {
      const Clock::time_point start = Clock::now();
      the_case.loop(side, the_case.bytes, 1);
      const double us = us_between(start, Clock::now());
      session.progress.tick(++done, all);
      if (!side.timed) continue;
      each = us;
      loop.total_us += us;
    }
  }
  session.team.barrier();
  return loop;
}

// New data in every repeat, looked at after it; barriers keep the three phases apart.
Loop time_with_data(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int iteration = i + repeats.warmup;
    const Clock::time_point begin = Clock::now();
    if (side.writes) the_case.write(iteration);
    const Clock::time_point written = Clock::now();
    session.team.barrier();
    const Clock::time_point start = Clock::now();
    if (side.acts) the_case.loop(side, the_case.bytes, 1);
    const Clock::time_point end = Clock::now();
    session.team.barrier();
    if (side.reads && session.options.corrupt_bytes == the_case.bytes && i == repeats.count - 1) the_case.spoil();
    const Clock::time_point ready = Clock::now();
    if (side.reads) loop.right &= the_case.read(iteration);
    const Clock::time_point read = Clock::now();
    session.progress.tick(iteration, repeats.warmup + repeats.count);
    if (i < 0) continue;
    loop.each_us.push_back(side.timed ? us_between(start, end) : 0);
    loop.total_us += loop.each_us.back();
    loop.data_us += (side.writes ? us_between(begin, written) : 0) + (side.reads ? us_between(ready, read) : 0);
  }
  return loop;
}

Loop time_case(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  if (session.options.touches()) return time_with_data(session, side, the_case, repeats);
  if (session.options.full || session.options.tail) return time_each(session, side, the_case, repeats);
  return time_whole(session, side, the_case, repeats);
}

std::vector<Column> columns_of(const Options& options, const TransferSpec& spec) {
  std::vector<Column> columns{{"# Size", "size", size_width, true}};
  if (spec.message_rate) {
    columns.push_back({"MB/s", "mb_s"});
    columns.push_back({"Messages/s", "messages_s"});
  } else if (spec.metric == Metric::bandwidth) {
    columns.push_back({"Bandwidth (MB/s)", "mb_s"});
  } else {
    columns.push_back({"Latency (us)", "avg_us"});
  }
  add_columns(options, spec.metric, {}, columns);
  return columns;
}

void add_row(Session& session, const TransferSpec& spec, std::size_t bytes, const Figures& figures) {
  std::vector<Cell> cells{std::uint64_t{bytes}, figures.main};
  if (spec.message_rate) cells.emplace_back(figures.main * 1e6 / static_cast<double>(bytes));
  add_cells(session.options, figures, cells);
  if (!figures.right) {
    withdraw(cells, 1);
    session.failed = true;
  }
  session.row(cells);
}

// The transfers of one window go to places of their own, as in OSU's programs, but not to more than this.
constexpr std::size_t most_bytes = 64 << 20;

TransferCase data_case(const Side& side, const Buffers& buffers, const TransferSpec& spec, TransferLoop loop,
                       std::size_t bytes, const Pattern& sent, const Pattern& expected) {
  const std::size_t all =
      bytes * (spec.windowed ? std::min(side.slots, static_cast<std::size_t>(side.window_size)) : 1);
  std::byte* const input = spec.direction == Direction::get ? buffers.remote() : buffers.local();
  std::byte* const result = spec.direction == Direction::get ? buffers.local() : buffers.remote();
  return {loop, bytes,                                                                         //
          [=, &sent](int iteration) { sent.write(input, all, iteration); },                    //
          [=, &expected](int iteration) { return expected.matches(result, all, iteration); },  //
          [=] { result[all - 1] ^= std::byte{1}; }};
}

void run_in(Session& session, const TransferSpec& spec, TransferLoop loop) {
  const std::vector<std::size_t> sizes = sizes_of(session.options);
  const std::size_t most = sizes.back();
  const std::size_t wanted = spec.windowed ? static_cast<std::size_t>(session.options.window_size) : 1;
  const std::size_t slots = std::clamp<std::size_t>(most_bytes / most, 1, wanted);
  Buffers buffers(session.team, session.options.place, most * slots, most * slots);
  Side side = side_of(session, spec, buffers, slots);
  const Pattern sent = Pattern::bytes(static_cast<std::uint64_t>(session.rank()));
  const Pattern expected = Pattern::bytes(static_cast<std::uint64_t>(side.peer));

  print_facts(session, side.peer);
  if (spec.message_rate)
    session.report.remark(
        fmt::format("[ pairs: {} ] [ window size: {} ]", session.ranks() / 2, session.options.window_size));
  session.report.columns(columns_of(session.options, spec));
  for (const std::size_t bytes : sizes) {
    session.progress.begin(fmt::format("{}: {} bytes", session.spec.name, bytes));
    const TransferCase the_case = data_case(side, buffers, spec, loop, bytes, sent, expected);
    add_row(session, spec, bytes, measure_transfer(session, spec, side, the_case));
  }
  buffers.close();
}

}  // namespace

Side side_of(Session& session, const TransferSpec& spec, Buffers& buffers, std::size_t slots) {
  const int rank = session.rank();
  const int last = session.ranks() - 1;
  const int half = session.ranks() / 2;
  const bool halves = spec.pairing == Pairing::halves;
  const bool low = halves ? rank < half : rank == 0;
  const bool high = halves ? rank >= half && rank < 2 * half : rank == last;
  const int peer = halves ? (low ? rank + half : rank - half) : (low ? last : 0);
  const bool both = spec.direction == Direction::both;
  const bool get = spec.direction == Direction::get;
  return {buffers.window(),
          low || high ? peer : rank,
          low || (high && both),
          low || (high && both && spec.one_way == 1),
          low,
          both ? low || high : (get ? high : low),
          both ? low || high : (get ? low : high),
          buffers.local(),
          session.options.window_size,
          slots};
}

Figures measure_transfer(Session& session, const TransferSpec& spec, Side& side, const TransferCase& the_case) {
  const Repeats repeats = repeats_for(session.spec, session.options, the_case.bytes);
  const Loop loop = time_case(session, side, the_case, repeats);

  const double timed = sum_over_ranks(session.team, side.timed ? 1 : 0);
  const double messages = timed * (spec.windowed ? session.options.window_size : 1);
  // A time, averaged over the timed ranks, as what the program prints.
  const auto as_metric = [&](double us) {
    if (spec.metric == Metric::latency) return us * spec.one_way;
    return static_cast<double>(the_case.bytes) * messages / us;  // bytes per us are MB per s
  };
  const auto mean = [&](double us) { return us / repeats.count; };

  Figures figures;
  const double total = sum_over_ranks(session.team, loop.total_us) / timed;
  figures.main = as_metric(mean(total));
  figures.iterations = repeats.count;
  figures.warmup = repeats.warmup;
  figures.right = sum_over_ranks(session.team, loop.right ? 0 : 1) == 0;
  // What both sides of a pair do with the data, one after the other; if both are timed, at the same time.
  const double data = sum_over_ranks(session.team, loop.data_us) / timed;
  figures.fresh = as_metric(mean(total + data));
  if (!session.options.full && !session.options.tail) return figures;

  std::vector<double> each = sum_over_ranks(session.team, loop.each_us);
  for (double& us : each) us = as_metric(us / timed);
  std::sort(each.begin(), each.end());
  figures.min = each.front();
  figures.max = each.back();
  if (timed > 1) {  // of the ranks' means, as OSU's; else of the repeats
    constexpr double none = std::numeric_limits<double>::infinity();
    const double fastest = min_over_ranks(session.team, side.timed ? loop.total_us : none);
    const double slowest = max_over_ranks(session.team, side.timed ? loop.total_us : 0);
    std::tie(figures.min, figures.max) = std::minmax({as_metric(mean(fastest)), as_metric(mean(slowest))});
  }
  for (const int percent : tail_percents) figures.tail.push_back(percentile(each, percent));
  return figures;
}

int run_transfers(int argc, char** argv, const Spec& program, const TransferSpec& spec, TransferLoop loop) {
  return run(argc, argv, program, [&](Session& session) { run_in(session, spec, loop); });
}

}  // namespace bench
