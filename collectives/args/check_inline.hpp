// The checks of a described call that the calls of least time run: inline, with a kind that is constant there.
// check.cpp uses them for all kinds.
#pragma once

#include <span>

#include "collectives/args/check.hpp"
#include "collectives/schedule/kinds.hpp"

namespace hmc::collectives::checks {

[[noreturn, gnu::cold]] void refuse_description(const char* operation, const char* why);
[[noreturn, gnu::cold]] void refuse_null(const char* operation, std::size_t bytes);
[[noreturn, gnu::cold]] void refuse_overlap(const char* operation, std::size_t in_bytes, std::size_t out_bytes);
[[noreturn, gnu::cold]] void refuse_size(const char* operation, std::size_t count, std::size_t element);
[[noreturn, gnu::cold]] void refuse_root(const rma::TeamCore& team, const char* operation, int root);
[[noreturn, gnu::cold]] void refuse_reduction(const char* operation, DType type, const Reduction& how);

// ---- parts of check() that aren't inline
void require_sizes(const rma::TeamCore& team, const Collective& call, const char* operation);
void check_uneven(const rma::TeamCore& team, const Collective& call, CollectiveArgs& args);
void check_alltoallv(const rma::TeamCore& team, const Collective& call, Form form, CollectiveArgs& args);
/// reduce_scatterv: checks the counts, and returns their sum.
std::size_t check_counts(const rma::TeamCore& team, const Collective& call, const char* operation);
std::uint64_t hash_of(std::span<const std::size_t> counts, std::size_t element) noexcept;

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

/// Not for calls in place.
[[gnu::always_inline]] inline void require_apart(const char* operation, const void* in, std::size_t in_bytes,
                                                 const void* out, std::size_t out_bytes) {
  if (overlap(in, in_bytes, out, out_bytes)) [[unlikely]]
    refuse_overlap(operation, in_bytes, out_bytes);
}

[[gnu::always_inline]] inline std::size_t checked_product(const char* operation, std::size_t count,
                                                          std::size_t element) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element, &bytes)) [[unlikely]]
    refuse_size(operation, count, element);
  return bytes;
}

[[gnu::always_inline]] inline void require_root(const rma::TeamCore& team, const char* operation, int root) {
  if (root < 0 || root >= team.size()) [[unlikely]]
    refuse_root(team, operation, root);
}

// ---- the kinds of calls. `args` has the kind, the name and the buffers. Inline with a `kind` that is constant in the
// calls that take least time.

/// Moves bytes, the same number for every rank.
[[gnu::always_inline]] inline void check_even(const rma::TeamCore& team, const Collective& call, CollectiveKind kind,
                                              CollectiveArgs& args) {
  const bool at_root = team.rank() == call.root;
  const bool all_in = has_blocks_in(kind), all_out = has_blocks_out(kind);
  const bool counts_by_size = all_in && all_out && call.in_size != Collective::unknown;
  const std::size_t count = counts_by_size ? call.in_size / static_cast<std::size_t>(team.size()) : call.count;
  const std::size_t block = checked_product(args.operation, count, call.element);
  const std::size_t all =
      has_blocks(kind) ? checked_product(args.operation, block, static_cast<std::size_t>(team.size())) : block;
  const auto* const in = static_cast<const std::byte*>(call.in);
  const auto* const out = static_cast<const std::byte*>(call.out);
  const bool has_all = !has_root(kind) || at_root;
  const std::size_t in_bytes = all_in ? (has_all ? all : 0) : block, out_bytes = all_out ? (has_all ? all : 0) : block;
  require_pointer(args.operation, in, in_bytes);
  require_pointer(args.operation, out, out_bytes);
  const std::size_t begin = block * static_cast<std::size_t>(team.rank());  // of this rank's block
  if (all_in == all_out) {
    args.call.in_place = in == out;
  } else if (has_all) {
    args.call.in_place = all_out ? in == out + begin : out == in + begin;
  }
  if (kind == CollectiveKind::broadcast && in != out) [[unlikely]]
    refuse_description(args.operation, "a broadcast has one buffer, which is its input and its output");
  if (!args.call.in_place) require_apart(args.operation, in, in_bytes, out, out_bytes);
  args.call.count = block;
  args.signature = Signature::make(kind, block, args.call.root);
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

inline unsigned op_number(const Reduction& how) noexcept {
  return how.is_function ? Signature::user_op : static_cast<unsigned>(how.op);
}

[[gnu::always_inline]] inline void check_reduction(const rma::TeamCore& team, const Collective& call,
                                                   CollectiveKind kind, CollectiveArgs& args) {
  if (row_of(kind).sources != Sources::all && !call.how.is_function && call.how.op == Op::avg)
    throw Error(Code::invalid_argument, args.operation, "avg isn't defined for a part of the team");
  args.reducer = resolve(args.operation, call.type, call.how);
  args.call.type = call.type;
  args.call.element_bytes = static_cast<std::uint32_t>(args.reducer.element);
  args.call.in_place = call.in == call.out;
  args.call.deterministic = call.how.deterministic;
  args.call.commutative = !call.how.is_function || call.how.commutative;
  if (!call.how.is_function) args.call.op = call.how.op;
  std::size_t in_count = call.count, out_count = call.count;
  std::uint64_t counted = call.count;  // in the signature
  if (call.is_uneven) {                // reduce_scatterv
    in_count = check_counts(team, call, args.operation);
    out_count = call.counts[static_cast<std::size_t>(team.rank())];
    args.call.counts = call.counts;
    counted = hash_of(call.counts, 1);
  } else {
    args.call.count = call.count;
    if (has_blocks_in(kind))
      in_count = checked_product(args.operation, in_count, static_cast<std::size_t>(team.size()));
    if (only_at_root(row_of(kind).out) && team.rank() != call.root) out_count = 0;
  }
  const std::size_t in_bytes = checked_product(args.operation, in_count, args.reducer.element);
  const std::size_t out_bytes = out_count * args.reducer.element;  // at most in_bytes
  require_pointer(args.operation, call.out, out_bytes);
  require_pointer(args.operation, call.in, in_bytes);
  if (!args.call.in_place) require_apart(args.operation, call.in, in_bytes, call.out, out_bytes);
  args.signature = Signature::make(kind, counted, args.call.root, call.type, op_number(call.how))
                       .reducing(args.call.deterministic, args.call.commutative);
  if (call.is_uneven) args.signature = args.signature.irregular();
}

[[gnu::always_inline]] inline CollectiveArgs check_kind(const rma::TeamCore& team, const Collective& call,
                                                        CollectiveKind kind, const char* operation, Form form) {
  CollectiveArgs args;
  args.operation = operation;
  args.input = call.in;
  args.output = call.out;
  args.call.collective = kind;
  if (call.is_uneven && !has_blocks(kind)) [[unlikely]]
    refuse_description(operation, "it has no form with a count per rank");
  if (call.in_size != Collective::unknown) require_sizes(team, call, operation);
  if (has_root(kind)) {
    require_root(team, operation, call.root);
    args.call.root = call.root;
  }
  if (reduces(kind)) {
    check_reduction(team, call, kind, args);
  } else if (!has_blocks(kind) || !call.is_uneven) {
    check_even(team, call, kind, args);
  } else if (has_blocks_in(kind) && has_blocks_out(kind)) {
    check_alltoallv(team, call, form, args);
  } else {
    check_uneven(team, call, args);
  }
  if (form != Form::run) args.signature = args.signature.non_blocking();
  return args;
}

}  // namespace hmc::collectives::checks
