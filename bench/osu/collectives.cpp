// Every collective, blocking (hmc_reduce) and non-blocking (hmc_ireduce), from one table. The size is that of a
// vector, or of one rank's block. The root is rank 0. v-forms have equal contiguous blocks, as in OSU.
#include <atomic>
#include <cctype>
#include <memory>
#include <optional>
#include <string>

#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/programs.hpp"

namespace bench {
namespace {

constexpr int root = 0;

enum class Kind { broadcast, gather, scatter, allgather, alltoall, reduce, allreduce, reduce_scatter, scan, exscan };

/// The arguments of a call for one message size.
struct Call {
  hmc::Team& team;
  std::byte* in;
  std::byte* out;
  std::size_t count;  // bytes, or elements of a reduction
  hmc::DType type;
  hmc::Op op;
  std::vector<std::size_t> counts;  // of a v-form, per rank
  std::vector<std::size_t> places;
};

struct Collective {
  const char* name;
  Kind kind;
  void (*call)(const Call& c);
  hmc::Request (*begin)(const Call& c);
};

const Collective table[] = {
    {"broadcast", Kind::broadcast,                                   //
     [](const Call& c) { c.team.broadcast(c.out, c.count, root); },  //
     [](const Call& c) { return c.team.ibroadcast(c.out, c.count, root); }},
    {"gather", Kind::gather,                                            //
     [](const Call& c) { c.team.gather(c.in, c.out, c.count, root); },  //
     [](const Call& c) { return c.team.igather(c.in, c.out, c.count, root); }},
    {"gatherv", Kind::gather,                                                       //
     [](const Call& c) { c.team.gatherv(c.in, c.out, c.counts, c.places, root); },  //
     [](const Call& c) { return c.team.igatherv(c.in, c.out, c.counts, c.places, root); }},
    {"scatter", Kind::scatter,                                           //
     [](const Call& c) { c.team.scatter(c.in, c.out, c.count, root); },  //
     [](const Call& c) { return c.team.iscatter(c.in, c.out, c.count, root); }},
    {"scatterv", Kind::scatter,                                                      //
     [](const Call& c) { c.team.scatterv(c.in, c.out, c.counts, c.places, root); },  //
     [](const Call& c) { return c.team.iscatterv(c.in, c.out, c.counts, c.places, root); }},
    {"allgather", Kind::allgather,                                   //
     [](const Call& c) { c.team.allgather(c.in, c.out, c.count); },  //
     [](const Call& c) { return c.team.iallgather(c.in, c.out, c.count); }},
    {"allgatherv", Kind::allgather,                                              //
     [](const Call& c) { c.team.allgatherv(c.in, c.out, c.counts, c.places); },  //
     [](const Call& c) { return c.team.iallgatherv(c.in, c.out, c.counts, c.places); }},
    {"alltoall", Kind::alltoall,                                    //
     [](const Call& c) { c.team.alltoall(c.in, c.out, c.count); },  //
     [](const Call& c) { return c.team.ialltoall(c.in, c.out, c.count); }},
    {"alltoallv", Kind::alltoall,
     [](const Call& c) { c.team.alltoallv(c.in, c.counts, c.places, c.out, c.counts, c.places); },
     [](const Call& c) { return c.team.ialltoallv(c.in, c.counts, c.places, c.out, c.counts, c.places, c.count); }},
    {"reduce", Kind::reduce,  //
     [](const Call& c) { c.team.reduce(c.in, c.out, c.count, c.type, c.op, root); },
     [](const Call& c) { return c.team.ireduce(c.in, c.out, c.count, c.type, c.op, root); }},
    {"allreduce", Kind::allreduce,  //
     [](const Call& c) { c.team.allreduce(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iallreduce(c.in, c.out, c.count, c.type, c.op); }},
    {"reduce_scatter", Kind::reduce_scatter,
     [](const Call& c) { c.team.reduce_scatter(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.ireduce_scatter(c.in, c.out, c.count, c.type, c.op); }},
    {"reduce_scatterv", Kind::reduce_scatter,
     [](const Call& c) { c.team.reduce_scatterv(c.in, c.out, c.counts, c.type, c.op); },
     [](const Call& c) { return c.team.ireduce_scatterv(c.in, c.out, c.counts, c.type, c.op); }},
    {"scan", Kind::scan,  //
     [](const Call& c) { c.team.scan(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iscan(c.in, c.out, c.count, c.type, c.op); }},
    {"exscan", Kind::exscan,  //
     [](const Call& c) { c.team.exscan(c.in, c.out, c.count, c.type, c.op); },
     [](const Call& c) { return c.team.iexscan(c.in, c.out, c.count, c.type, c.op); }},
};

bool reduces(Kind kind) { return kind >= Kind::reduce; }
bool is_prefix(Kind kind) { return kind == Kind::scan || kind == Kind::exscan; }

// The number of blocks in a rank's input and output.
std::size_t in_blocks(Kind kind, std::size_t ranks) {
  if (kind == Kind::broadcast) return 0;
  return kind == Kind::scatter || kind == Kind::alltoall || kind == Kind::reduce_scatter ? ranks : 1;
}
std::size_t out_blocks(Kind kind, std::size_t ranks) {
  return kind == Kind::gather || kind == Kind::allgather || kind == Kind::alltoall ? ranks : 1;
}

double algorithm_blocks(Kind kind, double ranks) {
  return std::max(in_blocks(kind, 2), out_blocks(kind, 2)) == 2 ? ranks : 1;
}
double bus_factor(Kind kind, double ranks) {
  if (kind == Kind::allreduce) return 2 * (ranks - 1) / ranks;
  return algorithm_blocks(kind, 2) == 2 ? (ranks - 1) / ranks : 1;
}

/// `size` bytes of a pattern at a position.
struct Piece {
  std::byte* at;
  Pattern pattern;
  int phase = 0;
};

/// The data that a rank writes before a call, and the expected data after it.
struct Data {
  std::size_t size;
  std::vector<Piece> written{};
  std::vector<Piece> expected{};

  void write(int data) const {
    for (const Piece& piece : written) piece.pattern.write(piece.at, size, data + piece.phase);
  }
  bool matches(int data) const {
    bool right = true;
    for (const Piece& piece : expected) right &= piece.pattern.matches(piece.at, size, data + piece.phase);
    return right;
  }
  void spoil() const { expected.back().at[size - 1] ^= std::byte{1}; }
};

Data data_that_moves(Kind kind, const Call& c) {
  Data data{c.count};
  const auto rank = static_cast<std::size_t>(c.team.rank());
  const auto ranks = static_cast<std::size_t>(c.team.size());
  const bool is_root = rank == root;
  const auto block = [&](std::byte* begin, std::size_t i) { return begin + i * c.count; };
  // One block per pair of ranks in alltoall; else one per rank.
  const auto sent = [](std::size_t from, std::size_t to = 0) { return Pattern::bytes(from + (to << 32)); };
  switch (kind) {
    case Kind::broadcast:
      if (is_root) data.written.push_back({c.out, sent(root)});
      data.expected.push_back({c.out, sent(root)});
      break;
    case Kind::gather:
      data.written.push_back({c.in, sent(rank)});
      for (std::size_t i = 0; is_root && i < ranks; ++i) data.expected.push_back({block(c.out, i), sent(i)});
      break;
    case Kind::scatter:
      for (std::size_t i = 0; is_root && i < ranks; ++i) data.written.push_back({block(c.in, i), sent(i)});
      data.expected.push_back({c.out, sent(rank)});
      break;
    case Kind::allgather:
      data.written.push_back({c.in, sent(rank)});
      for (std::size_t i = 0; i < ranks; ++i) data.expected.push_back({block(c.out, i), sent(i)});
      break;
    default:  // alltoall
      for (std::size_t i = 0; i < ranks; ++i) {
        data.written.push_back({block(c.in, i), sent(rank, i)});
        data.expected.push_back({block(c.out, i), sent(i, rank)});
      }
  }
  return data;
}

Data data_that_reduces(Kind kind, const Call& c) {
  const std::size_t bytes = c.count * hmc::size_of(c.type);
  Data data{bytes};
  const int rank = c.team.rank();
  const int ranks = c.team.size();
  const Pattern given = contribution(c.op, c.type, rank, ranks);
  // The blocks of reduce_scatter have a phase each, so that they differ.
  for (std::size_t i = 0; i < in_blocks(kind, static_cast<std::size_t>(ranks)); ++i)
    data.written.push_back({c.in + i * bytes, given, static_cast<int>(i)});
  if (kind == Kind::reduce && rank != root) return data;
  if (kind == Kind::exscan && rank == 0) {  // whose output isn't touched
    if (c.in != c.out) data.written.push_back({c.out, Pattern::bytes(0)});
    data.expected.push_back(data.written.back());
  } else if (is_prefix(kind)) {
    data.expected.push_back({c.out, prefix(c.op, c.type, kind == Kind::scan ? rank + 1 : rank, ranks)});
  } else {
    data.expected.push_back({c.out, reduction(c.op, c.type, ranks), kind == Kind::reduce_scatter ? rank : 0});
  }
  return data;
}

/// Sets `in` and `out`: separate, or with -l as in the collective's in-place form.
void place(Kind kind, bool in_place, std::size_t most, std::byte* memory, Call& c) {
  const auto rank = static_cast<std::size_t>(c.team.rank());
  const auto ranks = static_cast<std::size_t>(c.team.size());
  const bool is_root = rank == root;
  c.out = memory;
  c.in = memory + out_blocks(kind, ranks) * most;
  const std::size_t mine = rank * c.count;
  if (!in_place) return;
  if (kind == Kind::allgather || (kind == Kind::gather && is_root))
    c.in = c.out + mine;
  else if (kind == Kind::scatter && is_root)
    c.out = c.in + mine;
  else if (kind != Kind::gather && kind != Kind::scatter)
    c.in = c.out;
}

template <typename Enum> Enum named(const std::string& name) {
  int value = 0;  // the command line accepts only existing names
  while (hmc::name_of(static_cast<Enum>(value)) != name) ++value;
  return static_cast<Enum>(value);
}

CollectiveCase case_of(const Collective& what, bool non_blocking, Call call) {
  const double ranks = call.team.size();
  const std::size_t bytes = call.count * (reduces(what.kind) ? hmc::size_of(call.type) : 1);
  const auto data = std::make_shared<Data>(reduces(what.kind) ? data_that_reduces(what.kind, call)
                                                              : data_that_moves(what.kind, call));
  const bool only_root = what.kind == Kind::gather || what.kind == Kind::reduce;
  CollectiveCase the_case;
  the_case.spoils_on = only_root ? root : call.team.size() - 1;
  if (non_blocking)
    the_case.begin = [&what, call] { return what.begin(call); };
  else
    the_case.call = [&what, call] { what.call(call); };
  the_case.write = [data](int number) { data->write(number); };
  the_case.read = [data](int number) { return data->matches(number); };
  the_case.spoil = [data] { data->spoil(); };
  the_case.algorithm_bytes = static_cast<double>(bytes) * algorithm_blocks(what.kind, ranks);
  the_case.bus_factor = bus_factor(what.kind, ranks);
  return the_case;
}

void measure(Session& session, const Collective& what, bool non_blocking) {
  const Options& options = session.options;
  const hmc::DType type = reduces(what.kind) ? named<hmc::DType>(options.dtype) : hmc::DType::u8;
  const hmc::Op op = reduces(what.kind) ? named<hmc::Op>(options.operation) : hmc::sum;
  const std::vector<std::size_t> sizes = sizes_of(options, hmc::size_of(type));
  const auto ranks = static_cast<std::size_t>(session.ranks());
  const std::size_t most = sizes.back();
  Buffers buffers(session.team, options.place, most * (in_blocks(what.kind, ranks) + out_blocks(what.kind, ranks)));
  measure_collective(session, sizes, [&](std::size_t bytes) {
    const std::size_t count = bytes / hmc::size_of(type);
    Call call{session.team, nullptr, nullptr, count, type, op, std::vector(ranks, count), {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) call.places.push_back(rank * count);
    place(what.kind, options.in_place, most, buffers.local(), call);
    return case_of(what, non_blocking, call);
  });
  buffers.close();
}

// Before the barrier a rank writes the iteration into its word; after it, every rank's word must have it.
void measure_barrier(Session& session, bool non_blocking) {
  Buffers buffers(session.team, Place::window, 0);
  hmc::Window& window = buffers.window();
  const std::atomic_ref mine(*window.local<std::uint64_t>());
  const auto word = [](int data) { return static_cast<std::uint64_t>(data) + 1; };
  CollectiveCase barrier;
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
  measure_collective(session, barrier);
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
std::vector<std::string> operations(Kind kind) {
  std::vector<std::string> names;
  for (int op = 0; op < static_cast<int>(hmc::maxloc); ++op) {
    if (static_cast<hmc::Op>(op) != hmc::Op::avg || !is_prefix(kind))
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
  const unsigned in_place = what.kind == Kind::broadcast ? 0U : in_place_flag;
  Spec spec = spec_of(what.name, non_blocking, size_flag | data_flags | in_place);
  if (reduces(what.kind)) {
    spec.dtypes = dtypes();
    spec.operations = operations(what.kind);
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
