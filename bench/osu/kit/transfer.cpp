#include "bench/osu/kit/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/figures.hpp"

namespace bench {
namespace {

struct Loop {
  double total_us = 0;          // of the transfers, on timed sides
  double data_us = 0;           // of writing and reading
  std::vector<double> each_us;  // with -f or -z
  bool right = true;
};

// The timed loop. On a terminal, the loop and its clock stop a hundred times to show the progress.
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

// The fastest form: one timer around the whole loop.
Loop time_whole(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  if (side.writes) the_case.write(session.next_data);
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

// A timer around each repeat, for minimum, maximum and percentiles.
Loop time_each(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  loop.each_us.resize(static_cast<std::size_t>(repeats.count));
  if (side.writes) the_case.write(session.next_data);
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

// New data in every repeat, checked after it; barriers separate the three phases.
Loop time_with_data(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int data = session.next_data++;
    const Clock::time_point begin = Clock::now();
    if (side.writes) the_case.write(data);
    const Clock::time_point written = Clock::now();
    session.team.barrier();
    const Clock::time_point start = Clock::now();
    if (side.acts) the_case.loop(side, the_case.bytes, 1);
    const Clock::time_point end = Clock::now();
    session.team.barrier();
    if (side.reads && session.options.corrupt_bytes == the_case.bytes && i == repeats.count - 1) the_case.spoil();
    const Clock::time_point ready = Clock::now();
    if (side.reads) loop.right &= the_case.read(data);
    const Clock::time_point read = Clock::now();
    session.progress.tick(i + repeats.warmup, repeats.warmup + repeats.count);
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
  add_cells(session.options, spec.metric, figures, cells);
  if (!figures.right) {
    withdraw(cells, 1);
    session.failed = true;
  }
  session.row(cells);
}

// The transfers of one window use different offsets, as in OSU, up to this total size.
constexpr std::size_t most_bytes = 64 << 20;

TransferCase moving_case(const Side& side, const Buffers& buffers, const TransferSpec& spec, TransferLoop loop,
                         std::size_t bytes, const Pattern& sent, const Pattern& expected) {
  const std::size_t all =
      bytes * (spec.windowed ? std::min(side.slots, static_cast<std::size_t>(side.window_size)) : 1);
  std::byte* const input = spec.direction == Direction::get ? buffers.remote() : buffers.local();
  std::byte* const result = spec.direction == Direction::get ? buffers.local() : buffers.remote();
  return {loop, bytes,                                                               //
          [=, &sent](int data) { sent.write(input, all, data); },                    //
          [=, &expected](int data) { return expected.matches(result, all, data); },  //
          [=] { result[all - 1] ^= std::byte{1}; }};
}

// Words that use all of their bits. An accumulate adds the words of two seeds.
Pattern words(const std::vector<std::uint64_t>& seeds) {
  std::vector<std::uint64_t> sum(Pattern::period);
  std::vector<std::uint64_t> some(Pattern::period);
  for (const std::uint64_t seed : seeds) {
    Pattern::bytes(seed).write(some.data(), some.size() * sizeof some[0], 0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += some[i];
  }
  std::vector<std::byte> bytes(sum.size() * sizeof sum[0]);
  std::memcpy(bytes.data(), sum.data(), bytes.size());
  return {sizeof sum[0], bytes};
}

// The starting rank has the operands, its peer the words to which they are added.
TransferCase accumulating_case(const Side& side, const Buffers& buffers, TransferLoop loop, std::size_t bytes,
                               const Pattern& before, const Pattern& operand, const Pattern& after) {
  std::byte* const written = side.starts ? buffers.local() : buffers.remote();
  std::byte* const result = side.starts ? side.fetched : buffers.remote();
  return {loop, bytes,
          [=, &before, &operand, &side](int data) { (side.starts ? operand : before).write(written, bytes, data); },
          [=, &before, &after, &side](int data) { return (side.starts ? before : after).matches(result, bytes, data); },
          [=] { result[bytes - 1] ^= std::byte{1}; }};
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
  const bool both = spec.both;
  const bool get = spec.direction == Direction::get;
  return {session.team,
          buffers.window(),
          low || high ? peer : rank,
          low || (high && (both || spec.two_sided)),
          low || (high && both && spec.one_way == 1),
          low,
          both ? low || high : (get ? high : low),
          both ? low || high : (get ? low : high),
          buffers.local(),
          buffers.local(),
          session.options.window_size,
          slots};
}

Figures measure_transfer(Session& session, const TransferSpec& spec, Side& side, const TransferCase& the_case) {
  const Repeats repeats = repeats_for(session.spec, session.options, the_case.bytes);
  const Loop loop = time_case(session, side, the_case, repeats);

  const double timed = sum_over_ranks(session.team, side.timed ? 1 : 0);
  const double messages = timed * (spec.windowed ? session.options.window_size : 1);
  // Converts a time, averaged over the timed ranks, to the printed value.
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
  // Data phase of both sides of a pair: one after the other, or at the same time if both are timed.
  const double data = sum_over_ranks(session.team, loop.data_us) / timed;
  figures.fresh = as_metric(mean(total + data));
  if (!session.options.full && !session.options.tail) return figures;

  std::vector<double> each = sum_over_ranks(session.team, loop.each_us);
  for (double& us : each) us = as_metric(us / timed);
  std::sort(each.begin(), each.end());
  figures.min = each.front();
  figures.max = each.back();
  if (timed > 1) {  // of the ranks' means, as in OSU; else of the repeats
    constexpr double none = std::numeric_limits<double>::infinity();
    const double fastest = min_over_ranks(session.team, side.timed ? loop.total_us : none);
    const double slowest = max_over_ranks(session.team, side.timed ? loop.total_us : 0);
    std::tie(figures.min, figures.max) = std::minmax({as_metric(mean(fastest)), as_metric(mean(slowest))});
  }
  for (const int percent : tail_percents) figures.tail.push_back(percentile(each, percent));
  return figures;
}

void measure_transfers(Session& session, const TransferSpec& spec, TransferLoop loop) {
  const bool accumulates = spec.accumulates != Accumulates::no;
  const std::vector<std::size_t> sizes = sizes_of(session.options, accumulates ? sizeof(std::uint64_t) : 1);
  const std::size_t most = sizes.back();
  const std::size_t wanted = spec.windowed ? static_cast<std::size_t>(session.options.window_size) : 1;
  const std::size_t slots = std::clamp<std::size_t>(most_bytes / most, 1, wanted);
  Buffers buffers(session.team, session.options.place, most * slots * (accumulates ? 2 : 1), most * slots);
  Side side = side_of(session, spec, buffers, slots);
  const auto seed = [](int rank) { return static_cast<std::uint64_t>(rank); };
  const Pattern sent = Pattern::bytes(seed(session.rank()));
  const Pattern expected = Pattern::bytes(seed(side.peer));
  const Pattern before = words({seed(side.starts ? side.peer : session.rank())});
  const Pattern operand = words({seed(session.rank())});
  const Pattern after = words({seed(session.rank()), seed(side.peer)});
  if (accumulates) {
    side.fetched = buffers.local() + most;
    side.writes = side.acts || side.reads;
    side.reads = side.reads || (side.acts && spec.accumulates == Accumulates::and_fetches);
  }

  print_facts(session, side.peer);
  if (spec.message_rate)
    session.report.remark(
        fmt::format("[ pairs: {} ] [ window size: {} ]", session.ranks() / 2, session.options.window_size));
  session.report.columns(columns_of(session.options, spec));
  for (const std::size_t bytes : sizes) {
    session.progress.begin(fmt::format("{}: {} bytes", session.spec.name, bytes));
    const TransferCase the_case = accumulates ? accumulating_case(side, buffers, loop, bytes, before, operand, after)
                                              : moving_case(side, buffers, spec, loop, bytes, sent, expected);
    add_row(session, spec, bytes, measure_transfer(session, spec, side, the_case));
  }
  buffers.close();
}

}  // namespace bench
