#include "collectives/args/collective_args.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/reduce/reduce.hpp"

namespace hmc::collectives {

using schedule::Collective;

namespace {

[[gnu::always_inline]] constexpr Kind kind_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::barrier: return Kind::barrier;
    case Collective::broadcast: return Kind::broadcast;
    case Collective::reduce: return Kind::reduce;
    case Collective::allreduce: return Kind::allreduce;
    case Collective::gather: return Kind::gather;
    case Collective::scatter: return Kind::scatter;
    case Collective::allgather: return Kind::allgather;
    case Collective::alltoall: return Kind::alltoall;
    case Collective::reduce_scatter: return Kind::reduce_scatter;
    case Collective::scan: return Kind::scan;
    case Collective::exscan: return Kind::exscan;
  }
  return Kind::none;
}

// Every allreduce runs these checks. So the checks are inline, and the functions that throw aren't.

[[noreturn, gnu::cold, gnu::noinline]] void refuse_null(const char* operation, std::size_t bytes) {
  throw Error(Code::invalid_argument, operation, fmt::format("a buffer of {} bytes is null", bytes));
}
[[gnu::always_inline]] inline void require_pointer(const char* operation, const void* pointer, std::size_t bytes) {
  if (pointer == nullptr && bytes > 0) [[unlikely]]
    refuse_null(operation, bytes);
}

/// Compares the distance between the two start addresses modulo 2^64, once per direction.
[[gnu::always_inline]] inline bool overlap(const void* a, std::size_t a_bytes, const void* b,
                                           std::size_t b_bytes) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(a), to = reinterpret_cast<std::uintptr_t>(b);
  return (to - from < a_bytes && b_bytes > 0) || (from - to < b_bytes && a_bytes > 0);
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_overlap(const char* operation, std::size_t in_bytes,
                                                           std::size_t out_bytes) {
  throw Error(
      Code::invalid_argument, operation,
      fmt::format("the input ({} bytes) and the output ({} bytes) overlap, and not as in place", in_bytes, out_bytes),
      "in place, both are the same buffer; of gather, allgather and scatter the caller's block lies where it "
      "belongs in the buffer of all blocks");
}

/// Not for calls in place.
[[gnu::always_inline]] inline void require_apart(const char* operation, const void* in, std::size_t in_bytes,
                                                 const void* out, std::size_t out_bytes) {
  if (overlap(in, in_bytes, out, out_bytes)) [[unlikely]]
    refuse_overlap(operation, in_bytes, out_bytes);
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_size(const char* operation, std::size_t count, std::size_t element) {
  throw Error(Code::invalid_argument, operation,
              fmt::format("{} elements of {} bytes are more than there can be", count, element));
}
[[gnu::always_inline]] inline std::size_t checked_product(const char* operation, std::size_t count,
                                                          std::size_t element) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element, &bytes)) [[unlikely]]
    refuse_size(operation, count, element);
  return bytes;
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_root(const rma::TeamCore& team, const char* operation, int root) {
  throw Error(Code::bad_rank, operation,
              fmt::format("root {}: there is no such rank in a team of {}", root, team.size()));
}
[[gnu::always_inline]] inline void require_root(const rma::TeamCore& team, const char* operation, int root) {
  if (root < 0 || root >= team.size()) [[unlikely]]
    refuse_root(team, operation, root);
}

[[gnu::always_inline]] inline CollectiveArgs make(Collective collective, const char* operation, const void* in,
                                                  void* out) {
  CollectiveArgs args;
  args.call.collective = collective;
  args.operation = operation;
  args.input = in;
  args.output = out;
  return args;
}

/// A call that only moves bytes.
[[gnu::always_inline]] inline CollectiveArgs moving(Collective collective, const char* operation, const void* in,
                                                    void* out, std::size_t bytes, int root) {
  CollectiveArgs args = make(collective, operation, in, out);
  args.call.count = bytes;
  args.call.root = root;
  args.signature = Signature::make(kind_of(collective), bytes, root);
  return args;
}

/// Number of elements that a buffer of these blocks spans. Checks that there is a count per rank.
std::size_t reach_of(const rma::TeamCore& team, const char* operation, const Layout& blocks) {
  const auto size = static_cast<std::size_t>(team.size());
  if (blocks.counts.size() != size || (!blocks.displacements.empty() && blocks.displacements.size() != size))
    throw Error(Code::invalid_argument, operation,
                fmt::format("{} counts and {} displacements; the team has {} ranks", blocks.counts.size(),
                            blocks.displacements.size(), size));
  std::size_t reach = 0, next = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = blocks.displacements.empty() ? next : blocks.displacements[i];
    if (__builtin_add_overflow(begin, blocks.counts[i], &next))
      throw Error(Code::invalid_argument, operation, "the counts are more than there can be");
    if (blocks.counts[i] > 0) reach = std::max(reach, next);
  }
  return reach;
}

std::uint64_t hash_of(Counts counts, std::size_t element) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15U + element;
  for (const std::size_t count : counts) {
    hash = (hash ^ count) * 0xd1342543de82ef95U;
    hash ^= hash >> 29;
  }
  return hash & 0xffffffffU;
}

/// `blocks` describe the buffer that holds all ranks' blocks; the other buffer holds this rank's.
CollectiveArgs irregular(const rma::TeamCore& team, Collective collective, const char* operation, const void* in,
                         void* out, const Layout& blocks, int root, std::size_t element) {
  CollectiveArgs args = make(collective, operation, in, out);
  args.call.counts = blocks.counts;
  args.call.displacements = blocks.displacements;
  args.call.root = root;
  args.call.element_bytes = static_cast<std::uint32_t>(element);
  args.signature = Signature::make(kind_of(collective), hash_of(blocks.counts, element), root).irregular();
  if (element == 0 || element > UINT32_MAX)
    throw Error(Code::invalid_argument, operation, fmt::format("an element of {} bytes", element));
  checked_product(operation, reach_of(team, operation, blocks), element);
  return args;
}

/// Compares a buffer of `bytes` with the blocks of another buffer, which may have gaps.
void require_apart(const char* operation, const void* buffer, std::size_t bytes, const void* first,
                   const Layout& blocks, std::size_t element) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    const std::size_t begin = blocks.displacements.empty() ? next : blocks.displacements[i];
    next = begin + blocks.counts[i];
    require_apart(operation, buffer, bytes, static_cast<const std::byte*>(first) + begin * element,
                  blocks.counts[i] * element);
  }
}

const void* begin_of_block(const void* buffer, const Layout& blocks, int rank, std::size_t element) noexcept {
  const auto index = static_cast<std::size_t>(rank);
  std::size_t at = 0;
  if (blocks.displacements.empty()) {
    for (std::size_t i = 0; i < index; ++i) at += blocks.counts[i];
  } else {
    at = blocks.displacements[index];
  }
  return static_cast<const std::byte*>(buffer) + at * element;
}

}  // namespace

CollectiveArgs broadcast_args(const rma::TeamCore& team, void* data, std::size_t bytes, int root) {
  require_root(team, "broadcast", root);
  require_pointer("broadcast", data, bytes);
  CollectiveArgs args = moving(Collective::broadcast, "broadcast", data, data, bytes, root);
  args.call.in_place = true;
  return args;
}

CollectiveArgs gather_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes, int root) {
  require_root(team, "gather", root);
  const std::size_t all = checked_product("gather", bytes, static_cast<std::size_t>(team.size()));
  require_pointer("gather", in, bytes);
  if (team.rank() == root) require_pointer("gather", out, bytes);
  CollectiveArgs args = moving(Collective::gather, "gather", in, out, bytes, root);
  args.call.in_place =
      team.rank() == root && in == static_cast<std::byte*>(out) + bytes * static_cast<std::size_t>(root);
  if (team.rank() == root && !args.call.in_place) require_apart("gather", in, bytes, out, all);
  return args;
}

CollectiveArgs scatter_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes, int root) {
  require_root(team, "scatter", root);
  const std::size_t all = checked_product("scatter", bytes, static_cast<std::size_t>(team.size()));
  require_pointer("scatter", out, bytes);
  if (team.rank() == root) require_pointer("scatter", in, bytes);
  CollectiveArgs args = moving(Collective::scatter, "scatter", in, out, bytes, root);
  args.call.in_place =
      team.rank() == root && out == static_cast<const std::byte*>(in) + bytes * static_cast<std::size_t>(root);
  if (team.rank() == root && !args.call.in_place) require_apart("scatter", in, all, out, bytes);
  return args;
}

CollectiveArgs allgather_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes) {
  const std::size_t all = checked_product("allgather", bytes, static_cast<std::size_t>(team.size()));
  require_pointer("allgather", in, bytes);
  require_pointer("allgather", out, bytes);
  CollectiveArgs args = moving(Collective::allgather, "allgather", in, out, bytes, 0);
  args.call.in_place = in == static_cast<std::byte*>(out) + bytes * static_cast<std::size_t>(team.rank());
  if (!args.call.in_place) require_apart("allgather", in, bytes, out, all);
  return args;
}

CollectiveArgs alltoall_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes) {
  const std::size_t all = checked_product("alltoall", bytes, static_cast<std::size_t>(team.size()));
  require_pointer("alltoall", in, bytes);
  require_pointer("alltoall", out, bytes);
  CollectiveArgs args = moving(Collective::alltoall, "alltoall", in, out, bytes, 0);
  args.call.in_place = in == out;
  if (!args.call.in_place) require_apart("alltoall", in, all, out, all);
  return args;
}

CollectiveArgs gatherv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks, int root,
                            std::size_t element) {
  require_root(team, "gatherv", root);
  CollectiveArgs args = irregular(team, Collective::gather, "gatherv", in, out, blocks, root, element);
  require_pointer("gatherv", in, blocks.counts[static_cast<std::size_t>(team.rank())]);
  if (team.rank() != root) return args;
  require_pointer("gatherv", out, reach_of(team, "gatherv", blocks));
  args.call.in_place = in == begin_of_block(out, blocks, root, element);
  if (!args.call.in_place)
    require_apart("gatherv", in, blocks.counts[static_cast<std::size_t>(root)] * element, out, blocks, element);
  return args;
}

CollectiveArgs scatterv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks, int root,
                             std::size_t element) {
  require_root(team, "scatterv", root);
  CollectiveArgs args = irregular(team, Collective::scatter, "scatterv", in, out, blocks, root, element);
  require_pointer("scatterv", out, blocks.counts[static_cast<std::size_t>(team.rank())]);
  if (team.rank() != root) return args;
  require_pointer("scatterv", in, reach_of(team, "scatterv", blocks));
  args.call.in_place = out == begin_of_block(in, blocks, root, element);
  if (!args.call.in_place)
    require_apart("scatterv", out, blocks.counts[static_cast<std::size_t>(root)] * element, in, blocks, element);
  return args;
}

CollectiveArgs allgatherv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks,
                               std::size_t element) {
  CollectiveArgs args = irregular(team, Collective::allgather, "allgatherv", in, out, blocks, 0, element);
  require_pointer("allgatherv", in, blocks.counts[static_cast<std::size_t>(team.rank())]);
  require_pointer("allgatherv", out, reach_of(team, "allgatherv", blocks));
  args.call.in_place = in == begin_of_block(out, blocks, team.rank(), element);
  if (!args.call.in_place)
    require_apart("allgatherv", in, blocks.counts[static_cast<std::size_t>(team.rank())] * element, out, blocks,
                  element);
  return args;
}

CollectiveArgs alltoallv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& sent,
                              const Layout& received, std::size_t element) {
  CollectiveArgs args = irregular(team, Collective::alltoall, "alltoallv", in, out, sent, 0, element);
  const std::size_t sent_reach = reach_of(team, "alltoallv", sent);
  require_pointer("alltoallv", in, sent_reach);
  const std::size_t reach = reach_of(team, "alltoallv", received);
  checked_product("alltoallv", reach, element);
  require_pointer("alltoallv", out, reach);
  args.call.receive_counts = received.counts;
  args.call.receive_displacements = received.displacements;
  args.call.largest = std::max(*std::max_element(sent.counts.begin(), sent.counts.end()),
                               *std::max_element(received.counts.begin(), received.counts.end()));
  args.call.in_place = in == out;
  // The blocks of both sides may alternate in one range. Only then are all pairs of blocks compared.
  if (!args.call.in_place && overlap(in, sent_reach * element, out, reach * element)) [[unlikely]] {
    for (int rank = 0; rank < team.size(); ++rank)
      require_apart("alltoallv", begin_of_block(in, sent, rank, element),
                    sent.counts[static_cast<std::size_t>(rank)] * element, out, received, element);
  }
  args.signature = Signature::alltoallv(args.call.element_bytes);
  return args;
}

CollectiveArgs alltoallv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& sent,
                              const Layout& received, std::size_t largest, std::size_t element) {
  CollectiveArgs args = alltoallv_args(team, in, out, sent, received, element);
  // Far above any buffer, and far below the limit of the pieces' lengths.
  constexpr std::size_t most = std::size_t{1} << 48;
  if (largest > most / element)
    throw Error(Code::invalid_argument, "alltoallv",
                fmt::format("a largest count of {} elements of {} bytes is more than there can be", largest, element));
  args.call.largest = largest;
  args.compares_as = team.rank();
  return args;
}

namespace {

[[noreturn, gnu::cold, gnu::noinline]] void refuse_reduction(const char* operation, DType type, const Reduction& how) {
  const auto message = static_cast<int>(type) >= dtype_count
                           ? fmt::format("there is no element type {}", static_cast<int>(type))
                       : how.is_function ? std::string("the user's function is null")
                                         : fmt::format("{} isn't defined for {}", name_of(how.op), name_of(type));
  throw Error(Code::invalid_argument, operation, message);
}

[[gnu::always_inline]] inline Reducer resolve(const char* operation, DType type, const Reduction& how) {
  Reducer reducer;
  if (static_cast<int>(type) >= dtype_count) [[unlikely]]
    refuse_reduction(operation, type, how);
  reducer.type = type;
  reducer.element = size_of(type);
  if (how.is_function) {
    reducer.function = how.function;
    reducer.context = how.context;
  } else if (static_cast<int>(how.op) < op_count) {
    reducer.kernel = reduce_kernel(type, how.op);
  }
  if (reducer.kernel == nullptr && reducer.function == nullptr) [[unlikely]]
    refuse_reduction(operation, type, how);
  return reducer;
}

[[gnu::always_inline]] inline CollectiveArgs reducing(Collective collective, const char* operation, const void* in,
                                                      void* out, DType type, const Reduction& how) {
  CollectiveArgs args = make(collective, operation, in, out);
  args.reducer = resolve(operation, type, how);
  args.call.type = type;
  args.call.element_bytes = static_cast<std::uint32_t>(args.reducer.element);
  args.call.in_place = in == out;
  args.call.deterministic = how.deterministic;
  args.call.commutative = !how.is_function || how.commutative;
  if (!how.is_function) args.call.op = how.op;
  return args;
}

unsigned op_number(const Reduction& how) noexcept {
  return how.is_function ? Signature::user_op : static_cast<unsigned>(how.op);
}

/// Inline for the latency of allreduce: there all branches on the collective are constant.
[[gnu::always_inline]] inline CollectiveArgs reduction(const rma::TeamCore& team, Collective collective,
                                                       const char* operation, const void* in, void* out,
                                                       std::size_t count, DType type, const Reduction& how, int root) {
  if (collective == Collective::reduce) require_root(team, operation, root);
  if ((collective == Collective::scan || collective == Collective::exscan) && !how.is_function && how.op == Op::avg)
    throw Error(Code::invalid_argument, operation, "avg isn't defined for a part of the team");
  CollectiveArgs args = reducing(collective, operation, in, out, type, how);
  args.call.count = count;
  args.call.root = root;
  std::size_t bytes = checked_product(operation, count, args.call.element_bytes);
  const bool has_output = collective != Collective::reduce || team.rank() == root;
  const std::size_t out_bytes = has_output ? bytes : 0;
  require_pointer(operation, out, out_bytes);
  if (collective == Collective::reduce_scatter)
    bytes = checked_product(operation, bytes, static_cast<std::size_t>(team.size()));
  require_pointer(operation, in, bytes);
  if (in != out) require_apart(operation, in, bytes, out, out_bytes);
  args.signature = Signature::make(kind_of(collective), count, root, type, op_number(how))
                       .reducing(args.call.deterministic, args.call.commutative);
  return args;
}

}  // namespace

CollectiveArgs allreduce_args(const rma::TeamCore& team, const void* in, void* out, std::size_t count, DType type,
                              const Reduction& how) {
  return reduction(team, Collective::allreduce, "allreduce", in, out, count, type, how, 0);
}
CollectiveArgs reduction_args(const rma::TeamCore& team, Collective collective, const void* in, void* out,
                              std::size_t count, DType type, const Reduction& how, int root) {
  return reduction(team, collective, schedule::name_of(collective), in, out, count, type, how, root);
}

CollectiveArgs reduce_scatterv_args(const rma::TeamCore& team, const void* in, void* out, Counts counts, DType type,
                                    const Reduction& how) {
  CollectiveArgs args = reducing(Collective::reduce_scatter, "reduce_scatterv", in, out, type, how);
  const Layout blocks{counts, {}};
  const std::size_t reach = reach_of(team, "reduce_scatterv", blocks);
  checked_product("reduce_scatterv", reach, args.call.element_bytes);
  require_pointer("reduce_scatterv", in, reach);
  const std::size_t mine = counts[static_cast<std::size_t>(team.rank())];
  require_pointer("reduce_scatterv", out, mine);
  if (in != out)
    require_apart("reduce_scatterv", in, reach * args.call.element_bytes, out, mine * args.call.element_bytes);
  args.call.counts = counts;
  args.signature = Signature::make(Kind::reduce_scatter, hash_of(counts, 1), 0, type, op_number(how))
                       .irregular()
                       .reducing(args.call.deterministic, args.call.commutative);
  return args;
}

}  // namespace hmc::collectives
