#include "collectives/args/check_inline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace hmc::collectives {

namespace {

/// The blocks of a v-form; displacements are optional.
struct Layout {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> displacements;
};

/// The names of a collective, or of its v-form, in the three forms of a call.
struct Names {
  char run[32] = "", start[32] = "", plan[32] = "";
};
constexpr void append(char* text, std::string_view more) {
  while (*text != 0) ++text;
  for (const char c : more) *text++ = c;
}
using AllNames = std::array<Names, collective_count>;  // by kind
constexpr AllNames names_with(std::string_view suffix) {
  AllNames all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    append(all[i].start, "i");
    append(all[i].plan, "plan_");
    for (char* const name : {all[i].run, all[i].start, all[i].plan}) {
      append(name, hmc::name_of(static_cast<CollectiveKind>(i)));
      append(name, suffix);
    }
  }
  return all;
}
constexpr AllNames names = names_with(""), uneven_names = names_with("v");

}  // namespace

namespace checks {

void refuse_description(const char* operation, const char* why) { throw Error(Code::invalid_argument, operation, why); }

void refuse_null(const char* operation, std::size_t bytes) {
  throw Error(Code::invalid_argument, operation, fmt::format("a buffer of {} bytes is null", bytes));
}

void refuse_overlap(const char* operation, std::size_t in_bytes, std::size_t out_bytes) {
  throw Error(
      Code::invalid_argument, operation,
      fmt::format("the input ({} bytes) and the output ({} bytes) overlap, and not as in place", in_bytes, out_bytes),
      "in place, both are the same buffer; of gather, allgather and scatter the caller's block lies where it "
      "belongs in the buffer of all blocks");
}

void refuse_size(const char* operation, std::size_t count, std::size_t element) {
  throw Error(Code::invalid_argument, operation,
              fmt::format("{} elements of {} bytes are more than there can be", count, element));
}

void refuse_root(const rma::TeamCore& team, const char* operation, int root) {
  throw Error(Code::bad_rank, operation,
              fmt::format("root {}: there is no such rank in a team of {}", root, team.size()));
}

void refuse_reduction(const char* operation, DType type, const Reduction& how) {
  const auto message = static_cast<int>(type) >= dtype_count
                           ? fmt::format("there is no element type {}", static_cast<int>(type))
                       : how.is_function ? std::string("the user's function is null")
                                         : fmt::format("{} isn't defined for {}", name_of(how.op), name_of(type));
  throw Error(Code::invalid_argument, operation, message);
}

std::uint64_t hash_of(std::span<const std::size_t> counts, std::size_t element) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15U + element;
  for (const std::size_t count : counts) {
    hash = (hash ^ count) * 0xd1342543de82ef95U;
    hash ^= hash >> 29;
  }
  return hash & 0xffffffffU;
}

namespace {

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

/// Compares a buffer of `bytes` with the blocks of another buffer, which may have gaps.
void require_apart_from_blocks(const char* operation, const void* buffer, std::size_t bytes, const void* first,
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

// ---- the sizes of ranges, in elements

[[gnu::always_inline]] inline void require_length(const char* operation, const char* what, std::size_t got, bool enough,
                                                  std::size_t needed) {
  if (!enough) [[unlikely]]
    throw Error(Code::invalid_argument, operation, fmt::format("{} has {} elements; it needs {}", what, got, needed));
}

/// A range that holds these blocks. check_uneven() checks that there is a count and a displacement for each rank.
void require_reach(const char* operation, std::size_t all, const Layout& blocks) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    const std::size_t begin = i < blocks.displacements.size() ? blocks.displacements[i] : next;
    const bool overflows = __builtin_add_overflow(begin, blocks.counts[i], &next);
    if (blocks.counts[i] > 0)
      require_length(operation, "the range of all blocks", all, !overflows && next <= all, next);
  }
}

}  // namespace

std::size_t check_counts(const rma::TeamCore& team, const Collective& call, const char* operation) {
  if (!call.displacements.empty()) refuse_description(operation, "it has no displacements: the blocks are contiguous");
  return reach_of(team, operation, {call.counts, {}});
}

/// Only the root checks the range that only it uses.
void require_sizes(const rma::TeamCore& team, const Collective& call, const char* operation) {
  const bool uses_all = !has_root(call.kind) || call.root == team.rank();
  const bool all_is_input = has_blocks_in(call.kind);
  const std::size_t all = all_is_input ? call.in_size : call.out_size;
  const std::size_t block = all_is_input ? call.out_size : call.in_size;
  const auto ranks = static_cast<std::size_t>(team.size()), me = static_cast<std::size_t>(team.rank());
  if (has_blocks_in(call.kind) && has_blocks_out(call.kind)) {
    if (call.is_uneven) {
      require_reach(operation, call.in_size, {call.counts, call.displacements});
      require_reach(operation, call.out_size, {call.receive_counts, call.receive_displacements});
      return;
    }
    const std::size_t needed = call.in_size / ranks * ranks;
    require_length(operation, "the input", call.in_size, call.in_size == needed, needed);
    require_length(operation, "the output", call.out_size, call.out_size == call.in_size, call.in_size);
  } else if (call.is_uneven) {
    if (me < call.counts.size())
      require_length(operation, "the range of this rank's block", block, block >= call.counts[me], call.counts[me]);
    if (uses_all) require_reach(operation, all, {call.counts, call.displacements});
  } else if (has_blocks(call.kind)) {
    if (uses_all) require_length(operation, "the range of all blocks", all, all == block * ranks, block * ranks);
  } else if (uses_all) {
    require_length(operation, "the output", call.out_size, call.out_size == call.in_size, call.in_size);
  }
}

/// gatherv, scatterv, allgatherv: one buffer holds all ranks' blocks, the other one this rank's.
void check_uneven(const rma::TeamCore& team, const Collective& call, CollectiveArgs& args) {
  if (call.element == 0 || call.element > UINT32_MAX)
    throw Error(Code::invalid_argument, args.operation, fmt::format("an element of {} bytes", call.element));
  const Layout blocks{call.counts, call.displacements};
  const std::size_t reach = reach_of(team, args.operation, blocks);
  checked_product(args.operation, reach, call.element);
  const std::size_t mine = call.counts[static_cast<std::size_t>(team.rank())];
  const bool all_is_input = has_blocks_in(call.kind);
  const void* const block = all_is_input ? call.out : call.in;
  const void* const all = all_is_input ? call.in : call.out;
  require_pointer(args.operation, block, mine);
  if (!has_root(call.kind) || team.rank() == call.root) {
    require_pointer(args.operation, all, reach);
    args.call.in_place = block == begin_of_block(all, blocks, team.rank(), call.element);
    if (!args.call.in_place)
      require_apart_from_blocks(args.operation, block, mine * call.element, all, blocks, call.element);
  }
  args.call.counts = call.counts;
  args.call.displacements = call.displacements;
  args.call.element_bytes = static_cast<std::uint32_t>(call.element);
  args.signature = Signature::make(call.kind, hash_of(call.counts, call.element), args.call.root).irregular();
}

/// The ranks compare the counts during the call. A blocking call determines the largest count. In the other forms all
/// ranks pass the same `largest`, and compare it too.
void check_alltoallv(const rma::TeamCore& team, const Collective& call, Form form, CollectiveArgs& args) {
  if (call.element == 0 || call.element > UINT32_MAX)
    throw Error(Code::invalid_argument, args.operation, fmt::format("an element of {} bytes", call.element));
  const Layout sent{call.counts, call.displacements}, received{call.receive_counts, call.receive_displacements};
  const std::size_t sent_reach = reach_of(team, args.operation, sent);
  const std::size_t received_reach = reach_of(team, args.operation, received);
  const std::size_t sent_bytes = checked_product(args.operation, sent_reach, call.element);
  const std::size_t received_bytes = checked_product(args.operation, received_reach, call.element);
  require_pointer(args.operation, call.in, sent_reach);
  require_pointer(args.operation, call.out, received_reach);
  args.call.in_place = call.in == call.out;
  // The blocks of both sides may alternate in one range. Only then are all pairs of blocks compared.
  if (!args.call.in_place && overlap(call.in, sent_bytes, call.out, received_bytes)) [[unlikely]] {
    for (int rank = 0; rank < team.size(); ++rank)
      require_apart_from_blocks(args.operation, begin_of_block(call.in, sent, rank, call.element),
                                sent.counts[static_cast<std::size_t>(rank)] * call.element, call.out, received,
                                call.element);
  }
  args.call.counts = call.counts;
  args.call.displacements = call.displacements;
  args.call.receive_counts = call.receive_counts;
  args.call.receive_displacements = call.receive_displacements;
  args.call.element_bytes = static_cast<std::uint32_t>(call.element);
  args.signature = Signature::alltoallv(args.call.element_bytes);
  if (form == Form::run) {
    args.call.largest = std::max(*std::max_element(sent.counts.begin(), sent.counts.end()),
                                 *std::max_element(received.counts.begin(), received.counts.end()));
    return;
  }
  // Far above any buffer, and far below the limit of the pieces' lengths.
  constexpr std::size_t most = std::size_t{1} << 48;
  if (call.largest == Collective::unknown)
    throw Error(Code::invalid_argument, args.operation, "`largest` is missing: the largest count of any two ranks");
  if (call.largest > most / call.element)
    throw Error(Code::invalid_argument, args.operation,
                fmt::format("a largest count of {} elements of {} bytes is more than there can be", call.largest,
                            call.element));
  args.call.largest = call.largest;
  args.compares_as = team.rank();
}

}  // namespace checks

const char* name_of(const Collective& call, Form form) noexcept {
  if (static_cast<int>(call.kind) >= collective_count) return "a collective";  // check() refuses it
  const bool is_uneven = call.is_uneven && has_blocks(call.kind);
  const Names& each = (is_uneven ? uneven_names : names)[static_cast<std::size_t>(call.kind)];
  return form == Form::run ? each.run : form == Form::start ? each.start : each.plan;
}

CollectiveArgs check(const rma::TeamCore& team, const Collective& call, const char* operation, Form form) {
  switch (call.kind) {
    case CollectiveKind::barrier: {
      if (call.is_uneven) checks::refuse_description(operation, "it has no form with a count per rank");
      CollectiveArgs args = barrier_args();
      args.operation = operation;
      if (form != Form::run) args.signature = args.signature.non_blocking();
      return args;
    }
    case CollectiveKind::broadcast: return checks::check_kind(team, call, CollectiveKind::broadcast, operation, form);
    case CollectiveKind::allreduce: return checks::check_kind(team, call, CollectiveKind::allreduce, operation, form);
    case CollectiveKind::allgather: return checks::check_kind(team, call, CollectiveKind::allgather, operation, form);
    default:
      if (static_cast<int>(call.kind) >= collective_count)
        checks::refuse_description(operation, "the description is of no known kind");
      return checks::check_kind(team, call, call.kind, operation, form);
  }
}

}  // namespace hmc::collectives
