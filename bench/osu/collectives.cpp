// Every collective, blocking (hmc_reduce) and non-blocking (hmc_ireduce), from one table. The size is that of a
// vector, or of one rank's block. The root is rank 0. v-forms have equal contiguous blocks, as in OSU.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <functional>
#include <hmc/request.hpp>
#include <memory>
#include <optional>
#include <string>

#include "bench/kit/exchange.hpp"
#include "bench/kit/figures.hpp"
#include "bench/osu/data.hpp"
#include "bench/osu/session.hpp"

namespace bench {
namespace {

constexpr int root = 0;

/// The arguments of a call for one message size.
struct Call {
  hmc::Team& team;
  std::byte* in;  // broadcast: also the output
  std::byte* out;
  std::size_t count;  // bytes, or elements of a reduction
  hmc::DType type;
  hmc::Op op;
  std::vector<std::size_t> counts;  // of a v-form, per rank
  std::vector<std::size_t> places;
};

struct Collective {
  const char* name;
  Operation operation;
  void (*call)(const Call& c);
  hmc::Request (*begin)(const Call& c);
};

const Collective table[] = {
    {"broadcast", Operation::broadcast,                             //
     [](const Call& c) { c.team.broadcast(c.in, c.count, root); },  //
     [](const Call& c) { return c.team.ibroadcast(c.in, c.count, root); }},
    {"gather", Operation::gather,                                       //
     [](const Call& c) { c.team.gather(c.in, c.out, c.count, root); },  //
     [](const Call& c) { return c.team.igather(c.in, c.out, c.count, root); }},
    {"gatherv", Operation::gather,                                                  //
     [](const Call& c) { c.team.gatherv(c.in, c.out, c.counts, c.places, root); },  //
     [](const Call& c) { return c.team.igatherv(c.in, c.out, c.counts, c.places, root); }},
    {"scatter", Operation::scatter,                                      //
     [](const Call& c) { c.team.scatter(c.in, c.out, c.count, root); },  //
     [](const Call& c) { return c.team.iscatter(c.in, c.out, c.count, root); }},
    {"scatterv", Operation::scatter,                                                 //
     [](const Call& c) { c.team.scatterv(c.in, c.out, c.counts, c.places, root); },  //
     [](const Call& c) { return c.team.iscatterv(c.in, c.out, c.counts, c.places, root); }},
    {"allgather", Operation::allgather,                              //
     [](const Call& c) { c.team.allgather(c.in, c.out, c.count); },  //
     [](const Call& c) { return c.team.iallgather(c.in, c.out, c.count); }},
    {"allgatherv", Operation::allgather,                                         //
     [](const Call& c) { c.team.allgatherv(c.in, c.out, c.counts, c.places); },  //
     [](const Call& c) { return c.team.iallgatherv(c.in, c.out, c.counts, c.places); }},
    {"alltoall", Operation::alltoall,                               //
     [](const Call& c) { c.team.alltoall(c.in, c.out, c.count); },  //
     [](const Call& c) { return c.team.ialltoall(c.in, c.out, c.count); }},
    {"alltoallv", Operation::alltoall,
     [](const Call& c) { c.team.alltoallv(c.in, c.counts, c.places, c.out, c.counts, c.places); },
     [](const Call& c) { return c.team.ialltoallv(c.in, c.counts, c.places, c.out, c.counts, c.places, c.count); }},
    {"reduce", Operation::reduce,  //
     [](const Call& c) { c.team.reduce(c.in, c.out, c.count, c.type, c.op, root); },
     [](const Call& c) { return c.team.ireduce(c.in, c.out, c.count, c.type, c.op, root); }},
    {"allreduce", Operation::allreduce,  //
     [](const Call& c) { c.team.allreduce(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iallreduce(c.in, c.out, c.count, c.type, c.op); }},
    {"reduce_scatter", Operation::reduce_scatter,
     [](const Call& c) { c.team.reduce_scatter(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.ireduce_scatter(c.in, c.out, c.count, c.type, c.op); }},
    {"reduce_scatterv", Operation::reduce_scatter,
     [](const Call& c) { c.team.reduce_scatterv(c.in, c.out, c.counts, c.type, c.op); },
     [](const Call& c) { return c.team.ireduce_scatterv(c.in, c.out, c.counts, c.type, c.op); }},
    {"scan", Operation::scan,  //
     [](const Call& c) { c.team.scan(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iscan(c.in, c.out, c.count, c.type, c.op); }},
    {"exscan", Operation::exscan,  //
     [](const Call& c) { c.team.exscan(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iexscan(c.in, c.out, c.count, c.type, c.op); }},
};

// ---- the loop of all programs

/// A collective at one size: `call`, or `begin` of a non-blocking one. With -c or --fresh, `write` and `read` are
/// called in every iteration; `data` differs between iterations and is the same on every rank.
struct Case {
  std::function<void()> call;
  std::function<hmc::Request()> begin;
  std::function<void(int data)> write;  // this rank's input
  std::function<bool(int data)> read;   // whether this rank's result is right
  std::function<void()> spoil;          // --corrupt: flips a bit of this rank's result
  int spoils_on = 0;                    // the rank of `spoil`, which has a result
  bool lines_up = true;                 // a barrier between write and call; not if the test is that the call waits
  double result_bytes = 0;              // for the algorithm bandwidth: the size of the whole result
  double bus_factor = 0;                // bus bandwidth = factor * algorithm bandwidth
};

/// In microseconds. Only `whole` for a call without computation.
struct Times {
  double whole = 0;
  double init = 0;     // until the request is returned
  double compute = 0;  // the computation, without communication in progress
  double wait = 0;     // from the end of the computation
};
using TimedCall = std::function<Times()>;

struct Loop {
  Times total;
  double with_data_us = 0;      // with --fresh: write, call and read
  std::vector<double> each_us;  // with -z
  bool right = true;
};

// The time excludes writing and reading.
Times time_call(Session& session, const Case& the_case, const TimedCall& call, bool spoils, bool& right) {
  const int data = session.next_data++;
  const bool touches = session.options.touches();
  if (touches) {
    the_case.write(data);
    if (the_case.lines_up) session.team.barrier();
  }
  const Times times = call();
  if (touches) {  // before the barrier, which would hide a call that returns too early
    if (spoils) the_case.spoil();
    right &= the_case.read(data);
  }
  session.team.barrier();
  return times;
}

// The time includes writing and reading.
double time_with_data(Session& session, const Case& the_case, const TimedCall& call, bool& right) {
  const int data = session.next_data++;
  const std::int64_t start = now_ns();
  the_case.write(data);
  call();
  const bool read = the_case.read(data);
  const double us = us_since(start);
  right &= read;
  session.team.barrier();
  return us;
}

// OSU's rules: a barrier after each call, outside the timer. Both forms, and the computation alone, in every iteration,
// so that other load on the machine affects all of them.
Loop time_calls(Session& session, const Case& the_case, std::size_t bytes, const TimedCall& call,
                const Work* work = nullptr) {
  const Repeats repeats = repeats_for(session.spec, session.options, bytes);
  const bool corrupts = session.options.corrupt_bytes == bytes && session.rank() == the_case.spoils_on;
  Loop loop;
  the_case.write(session.next_data++);
  session.team.barrier();
  for (int i = -repeats.warmup; i < repeats.count; ++i) {
    double alone_us = 0;
    if (work != nullptr) {
      const std::int64_t start = now_ns();
      work->run();
      alone_us = us_since(start);
      session.team.barrier();
    }
    const Times times = time_call(session, the_case, call, corrupts && i == repeats.count - 1, loop.right);
    const double with_data_us = session.options.fresh ? time_with_data(session, the_case, call, loop.right) : 0;
    session.progress.tick(i + repeats.warmup, repeats.warmup + repeats.count);
    if (i < 0) continue;
    loop.total.whole += times.whole;
    loop.total.init += times.init;
    loop.total.compute += alone_us;
    loop.total.wait += times.wait;
    loop.with_data_us += with_data_us;
    if (session.options.tail) loop.each_us.push_back(times.whole);
  }
  return loop;
}

/// The values of a row. `figures`: of the call; for a non-blocking one, of the call beside computation.
struct Result {
  Figures figures{};
  Times beside{};
  double pure = 0, min_pure = 0, max_pure = 0;  // the non-blocking call without computation
  double algorithm_mb_s = 0, bus_mb_s = 0;
};

// The average is over the ranks. Minimum and maximum are those of the per-rank means. Non-blocking: first the
// communication alone, then with as much computation.
Result measure_case(Session& session, const Case& the_case, std::size_t bytes) {
  const Repeats repeats = repeats_for(session.spec, session.options, bytes);
  const double ranks = session.ranks();
  const auto mean = [&](double us) { return sum_over_ranks(session.team, us / repeats.count) / ranks; };
  const Loop alone = time_calls(session, the_case, bytes, [&] {
    const std::int64_t start = now_ns();
    if (the_case.begin)
      the_case.begin().wait();
    else
      the_case.call();
    return Times{.whole = us_since(start)};
  });
  Result result;
  Loop loop = alone;
  result.pure = mean(alone.total.whole);
  result.min_pure = min_over_ranks(session.team, alone.total.whole / repeats.count);
  result.max_pure = max_over_ranks(session.team, alone.total.whole / repeats.count);
  if (the_case.begin) {
    const Work work(result.pure);
    const TimedCall call = [&] {
      const std::int64_t start = now_ns();
      hmc::Request request = the_case.begin();
      const std::int64_t begun = now_ns();
      work.run();
      const std::int64_t computed = now_ns();
      request.wait();
      const std::int64_t end = now_ns();
      return Times{
          .whole = us_between(start, end), .init = us_between(start, begun), .wait = us_between(computed, end)};
    };
    loop = time_calls(session, the_case, bytes, call, &work);
    result.beside = {mean(loop.total.whole), mean(loop.total.init), mean(loop.total.compute), mean(loop.total.wait)};
  }
  Figures& figures = result.figures;
  figures = {.main = the_case.begin ? result.beside.whole : result.pure,
             .min = result.min_pure,
             .max = result.max_pure,
             .iterations = repeats.count,
             .warmup = repeats.warmup,
             .right = sum_over_ranks(session.team, alone.right && loop.right ? 0 : 1) == 0};
  if (session.options.fresh) figures.fresh = mean(loop.with_data_us);
  if (session.options.tail) {
    figures.each = sum_over_ranks(session.team, loop.each_us);
    for (double& us : figures.each) us /= ranks;
    std::sort(figures.each.begin(), figures.each.end());
  }
  result.algorithm_mb_s = the_case.result_bytes / result.pure;  // bytes per us are MB per s
  result.bus_mb_s = result.algorithm_mb_s * the_case.bus_factor;
  return result;
}

/// Without `bytes`: a table without sizes.
Row row_of(const Session& session, std::optional<std::size_t> bytes, const Result& result) {
  const bool full = session.options.full;
  const bool overlaps = (session.spec.flags & overlap_flag) != 0;
  Row row;
  const auto add = [&](const char* title, const char* key, double value) { row.push_back({title, key, value}); };
  if (bytes) row.push_back({"# Size", "size", std::uint64_t{*bytes}, size_width, true});
  if (overlaps) {
    add("Overall(us)", "overall_us", result.beside.whole);
    add("Compute(us)", "compute_us", result.beside.compute);
    if (full) add("Coll. Init(us)", "init_us", result.beside.init);
    if (full) add("Wait(us)", "wait_us", result.beside.wait);
    add("Pure Comm.(us)", "pure_us", result.pure);
    if (full) add("Min Comm.(us)", "min_pure_us", result.min_pure);
    if (full) add("Max Comm.(us)", "max_pure_us", result.max_pure);
    add("Overlap(%)", "overlap_percent", overlap_percent(result.beside.whole, result.beside.compute, result.pure));
  } else {
    add("Avg Latency(us)", "avg_us", result.figures.main);
  }
  Row more;
  if (bytes)
    more = {{"Alg BW(MB/s)", "algorithm_mb_s", result.algorithm_mb_s}, {"Bus BW(MB/s)", "bus_mb_s", result.bus_mb_s}};
  else  // OSU's width of a column without sizes: its title's
    row[0].width = static_cast<int>((row[0].title = "# " + row[0].title).size());
  add_common(session.options, overlaps ? Metric::overlap : Metric::latency, result.figures, more, row);
  return row;
}

void begin_table(Session& session, std::optional<std::size_t> bytes) {
  print_facts(session);
  if (session.spec.flags & overlap_flag)
    session.report.remark("Overall = Coll. Init + Compute + Wait; Compute and Pure Comm. are measured alone");
  session.report.columns(row_of(session, bytes, {}));
}

void add_row(Session& session, std::optional<std::size_t> bytes, const Case& the_case) {
  session.progress.begin(session.spec.name + (bytes ? fmt::format(": {} bytes", *bytes) : ""));
  const Result result = measure_case(session, the_case, bytes.value_or(0));
  session.row(row_of(session, bytes, result), result.figures.right);
}

// ---- the data of a call

/// Sets `in` and `out`: separate, or with -l as in the collective's in-place form.
void place(Operation operation, bool in_place, std::size_t most, std::byte* memory, Call& c) {
  const bool is_root = c.team.rank() == root;
  c.out = memory;
  c.in = memory + blocks_out(operation, static_cast<std::size_t>(c.team.size())) * most;
  const std::size_t mine = static_cast<std::size_t>(c.team.rank()) * c.count;
  if (!in_place) return;
  if (operation == Operation::allgather || (operation == Operation::gather && is_root))
    c.in = c.out + mine;
  else if (operation == Operation::scatter && is_root)
    c.out = c.in + mine;
  else if (operation != Operation::gather && operation != Operation::scatter)
    c.in = c.out;
}

Exchange data_of(Operation operation, const Call& c, std::size_t bytes) {
  const int rank = c.team.rank();
  const int ranks = c.team.size();
  Reduction reduction;
  if (reduces(operation))
    reduction = {contribution(c.op, c.type, rank, ranks),
                 [=, op = c.op, type = c.type](int end) { return bench::reduction(op, type, end, ranks); }};
  Exchange data = exchange_of(operation, rank, ranks, c.in, c.out, bytes, reduction);
  if (operation == Operation::exscan && rank == 0) {  // whose output isn't touched
    if (c.in != c.out) data.written.push_back({c.out, Pattern::bytes(0)});
    data.expected.push_back(data.written.back());
  }
  return data;
}

template <typename Enum> Enum named(const std::string& name) {
  int value = 0;  // the command line accepts only existing names
  while (hmc::name_of(static_cast<Enum>(value)) != name) ++value;
  return static_cast<Enum>(value);
}

Case case_of(const Collective& what, bool non_blocking, Call call, std::size_t bytes) {
  const double ranks = call.team.size();
  const auto all = static_cast<std::size_t>(call.team.size());
  const bool per_rank = std::max(blocks_in(what.operation, 2), blocks_out(what.operation, 2)) == 2;
  const bool only_root = what.operation == Operation::gather || what.operation == Operation::reduce;
  const auto data = std::make_shared<Exchange>(data_of(what.operation, call, bytes));
  Case the_case;
  if (non_blocking)
    the_case.begin = [&what, call] { return what.begin(call); };
  else
    the_case.call = [&what, call] { what.call(call); };
  the_case.write = [data](int number) { data->write(number); };
  the_case.read = [data](int number) { return data->matches(number); };
  the_case.spoil = [data] { data->spoil(); };
  the_case.spoils_on = only_root ? root : call.team.size() - 1;
  the_case.result_bytes = static_cast<double>(bytes * (per_rank ? all : 1));
  the_case.bus_factor = what.operation == Operation::allreduce ? 2 * (ranks - 1) / ranks
                        : per_rank                             ? (ranks - 1) / ranks
                                                               : 1;
  return the_case;
}

void measure(Session& session, const Collective& what, bool non_blocking) {
  const Options& options = session.options;
  const bool sums = reduces(what.operation);
  const hmc::DType type = sums ? named<hmc::DType>(options.dtype) : hmc::DType::u8;
  const hmc::Op op = sums ? named<hmc::Op>(options.operation) : hmc::sum;
  const std::vector<std::size_t> sizes = sizes_of(options, hmc::size_of(type));
  const auto ranks = static_cast<std::size_t>(session.ranks());
  const std::size_t most = sizes.back();
  const std::size_t blocks = blocks_in(what.operation, ranks) + blocks_out(what.operation, ranks);
  Buffers buffers(session.team, options.place, most * blocks);
  begin_table(session, most);
  for (const std::size_t bytes : sizes) {
    const std::size_t count = bytes / hmc::size_of(type);
    Call call{session.team, nullptr, nullptr, count, type, op, std::vector(ranks, count), {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) call.places.push_back(rank * count);
    place(what.operation, options.in_place, most, buffers.local(), call);
    add_row(session, bytes, case_of(what, non_blocking, call, bytes));
  }
  buffers.close();
}

// Before the barrier a rank writes the iteration into its word; after it, every rank's word must have it.
void measure_barrier(Session& session, bool non_blocking) {
  Buffers buffers(session.team, Place::window, 0);
  hmc::Window& window = buffers.window();
  const std::atomic_ref mine(*window.local<std::uint64_t>());
  const auto word = [](int data) { return static_cast<std::uint64_t>(data) + 1; };
  Case barrier;
  if (non_blocking)
    barrier.begin = [&] { return session.team.ibarrier(); };
  else
    barrier.call = [&] { session.team.barrier(); };
  barrier.write = [&](int data) { mine.store(word(data)); };
  barrier.read = [&](int data) {
    bool right = true;
    for (int rank = 0; rank < session.ranks(); ++rank) right &= window.fetch<std::uint64_t>(rank, 0) == word(data);
    return right;
  };
  barrier.spoil = [&] { mine.fetch_xor(1); };
  barrier.lines_up = false;
  begin_table(session, {});
  add_row(session, {}, barrier);
  buffers.close();
}

// f32 and sum come first: they are the defaults.
std::vector<std::string> dtypes() {
  std::vector<std::string> names{hmc::name_of(hmc::DType::f32)};
  for (int type = 0; type < hmc::dtype_count; ++type) {
    if (static_cast<hmc::DType>(type) != hmc::DType::f32 && !hmc::is_located(static_cast<hmc::DType>(type)))
      names.emplace_back(hmc::name_of(static_cast<hmc::DType>(type)));
  }
  return names;
}
// An average over some of the ranks isn't defined, so scan and exscan don't accept avg.
std::vector<std::string> operations(Operation operation) {
  std::vector<std::string> names;
  for (int op = 0; op < static_cast<int>(hmc::maxloc); ++op) {
    if (static_cast<hmc::Op>(op) != hmc::Op::avg || !is_prefix(operation))
      names.emplace_back(hmc::name_of(static_cast<hmc::Op>(op)));
  }
  return names;
}

Spec spec_of(const std::string& name, bool non_blocking, unsigned flags) {
  std::string title = name;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return {.name = (non_blocking ? "hmc_i" : "hmc_") + name,
          .title = (non_blocking ? "Non-blocking " : "") + title + " Latency Test",
          .flags = flags | timing_flags | (non_blocking ? overlap_flag : 0U)};
}

Program program_of(const Collective& what, bool non_blocking) {
  const unsigned in_place = what.operation == Operation::broadcast ? 0U : in_place_flag;
  Spec spec = spec_of(what.name, non_blocking, size_flag | data_flags | in_place);
  if (reduces(what.operation)) {
    spec.dtypes = dtypes();
    spec.operations = operations(what.operation);
  }
  return {spec, [&what, non_blocking](Session& session) { measure(session, what, non_blocking); }};
}

}  // namespace

std::vector<Program> collectives() {
  std::vector<Program> programs;
  for (const bool non_blocking : {false, true}) {
    programs.push_back({spec_of("barrier", non_blocking, 0),
                        [non_blocking](Session& session) { measure_barrier(session, non_blocking); }});
    for (const Collective& what : table) programs.push_back(program_of(what, non_blocking));
  }
  return programs;
}

}  // namespace bench
