#include "bench/osu/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <tuple>

#include "bench/kit/exchange.hpp"
#include "bench/kit/figures.hpp"

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
    const std::int64_t start = now_ns();
    the_case.loop(side, the_case.bytes, at(slice + 1) - at(slice));
    us += us_since(start);
    session.progress.tick(done + at(slice + 1), of);
  }
  return us;
}

// The fastest form is one timer around the whole loop. With `each`: a timer around each repeat, for minimum, maximum
// and percentiles.
Loop time_calls(Session& session, Side& side, const TransferCase& the_case, Repeats repeats, bool each) {
  Loop loop;
  if (each) loop.each_us.resize(static_cast<std::size_t>(repeats.count));
  if (side.writes) the_case.write(session.next_data);
  session.team.barrier();
  if (side.acts) {
    const int all = repeats.warmup + repeats.count;
    run_loop(session, side, the_case, repeats.warmup, 0, all);
    if (!each) loop.total_us = run_loop(session, side, the_case, repeats.count, repeats.warmup, all);
    int done = repeats.warmup;
    for (double& us : loop.each_us) {
      const std::int64_t start = now_ns();
      the_case.loop(side, the_case.bytes, 1);
      us = us_since(start);
      loop.total_us += us;
      session.progress.tick(++done, all);
    }
  }
  if (!side.timed) loop = {.each_us = std::vector<double>(loop.each_us.size())};
  session.team.barrier();
  return loop;
}

// New data in every repeat, checked after it; barriers separate the three phases.
Loop time_with_data(Session& session, Side& side, const TransferCase& the_case, Repeats repeats) {
  Loop loop;
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    const int data = session.next_data++;
    const std::int64_t begin = now_ns();
    if (side.writes) the_case.write(data);
    const std::int64_t written = now_ns();
    session.team.barrier();
    const std::int64_t start = now_ns();
    if (side.acts) the_case.loop(side, the_case.bytes, 1);
    const std::int64_t end = now_ns();
    session.team.barrier();
    if (side.reads && session.options.corrupt_bytes == the_case.bytes && i == repeats.count - 1) the_case.spoil();
    const std::int64_t ready = now_ns();
    if (side.reads) loop.right &= the_case.read(data);
    const std::int64_t read = now_ns();
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
  return time_calls(session, side, the_case, repeats, session.options.full || session.options.tail);
}

Row row_of(const Options& options, const TransferSpec& spec, std::size_t bytes, const Figures& figures) {
  Row row{{"# Size", "size", std::uint64_t{bytes}, size_width, true}};
  if (!spec.windowed) {
    row.push_back({"Latency (us)", "avg_us", figures.main});
  } else {
    row.push_back({spec.message_rate() ? "MB/s" : "Bandwidth (MB/s)", "mb_s", figures.main});
    if (spec.message_rate())
      row.push_back({"Messages/s", "messages_s", figures.main * 1e6 / static_cast<double>(bytes)});
  }
  add_common(options, spec.metric(), figures, {}, row);
  return row;
}

// The transfers of one window use different offsets, as in OSU, up to this total size.
constexpr std::size_t most_bytes = 64 << 20;

// `input` is written on sides that write, `result` read on sides that read.
TransferCase case_of(TransferLoop loop, std::size_t bytes, Exchange::Piece input, Exchange::Piece result,
                     std::size_t data_bytes) {
  const auto data = std::make_shared<Exchange>(Exchange{data_bytes, {std::move(input)}, {std::move(result)}});
  return {loop, bytes, [=](int call) { data->write(call); }, [=](int call) { return data->matches(call); },
          [=] { data->spoil(); }};
}

TransferCase moving_case(const Side& side, const Buffers& buffers, const TransferSpec& spec, TransferLoop loop,
                         std::size_t bytes, int rank) {
  std::byte* ends[] = {buffers.local(), buffers.remote()};
  if (spec.direction == Direction::get) std::swap(ends[0], ends[1]);
  const auto sent = [](int from) { return Pattern::bytes(static_cast<std::uint64_t>(from)); };
  const std::size_t places = spec.windowed ? std::min(side.slots, static_cast<std::size_t>(side.window_size)) : 1;
  return case_of(loop, bytes, {ends[0], sent(rank)}, {ends[1], sent(side.peer)}, bytes * places);
}

// Words that use all of their bits: the sums of the ranks' operands.
Pattern words(std::initializer_list<int> ranks) {
  return Pattern::of([=](std::size_t i) {
    std::uint64_t sum = 0;
    for (const int rank : ranks) sum += hash(static_cast<std::uint64_t>(rank), i);
    return sum;
  });
}

// The starting rank has the operands, its peer the words to which they are added.
TransferCase accumulating_case(const Side& side, const Buffers& buffers, TransferLoop loop, std::size_t bytes,
                               int rank) {
  if (side.starts)
    return case_of(loop, bytes, {buffers.local(), words({rank})}, {side.fetched, words({side.peer})}, bytes);
  return case_of(loop, bytes, {buffers.remote(), words({rank})}, {buffers.remote(), words({rank, side.peer})}, bytes);
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
          low || (high && both && !spec.ping_pong()),
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
    if (!spec.windowed) return spec.ping_pong() ? us / 2 : us;
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
  figures.each = std::move(each);
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
  if (accumulates) {
    side.fetched = buffers.local() + most;
    side.writes = side.acts || side.reads;
    side.reads = side.reads || (side.acts && spec.accumulates == Accumulates::and_fetches);
  }

  print_facts(session, side.peer);
  if (spec.message_rate())
    session.report.remark(
        fmt::format("[ pairs: {} ] [ window size: {} ]", session.ranks() / 2, session.options.window_size));
  session.report.columns(row_of(session.options, spec, 1, {}));
  for (const std::size_t bytes : sizes) {
    session.progress.begin(fmt::format("{}: {} bytes", session.spec.name, bytes));
    const int rank = session.rank();
    const TransferCase the_case = accumulates ? accumulating_case(side, buffers, loop, bytes, rank)
                                              : moving_case(side, buffers, spec, loop, bytes, rank);
    const Figures figures = measure_transfer(session, spec, side, the_case);
    session.row(row_of(session.options, spec, bytes, figures), figures.right);
  }
  buffers.close();
}

}  // namespace bench
