// The deterministic forms: one kernel call folds each element over all ranks in rank order. So its bits depend only on
// the contributions and the team size, not on message size, segments or path.
//
// slices, for long vectors: each rank receives all contributions to its slice (or block), folds, and sends the result.
// gathered, for short vectors: each rank receives all whole vectors (Bruck, log2 N rounds) and folds.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Sends every other rank its part of the input. Collects all contributions to this rank's part in scratch, in rank
/// order. Returns the place of the first and the stride between them.
struct Contributions {
  Place first;
  std::uint64_t stride;
};
Contributions exchange_parts(Builder& b, const std::function<std::uint64_t(int)>& begin,
                             const std::function<std::uint64_t(int)>& bytes_of) {
  const std::uint64_t bytes = bytes_of(b.rank), stride = line_up(bytes);
  b.take_scratch(static_cast<std::uint64_t>(b.size) * stride);
  const auto me = static_cast<std::uint64_t>(b.rank);
  for (int i = 1; i < b.size; ++i) {
    const int to = (b.rank + i) % b.size;
    b.send(input(begin(to)), to, me * line_up(bytes_of(to)), bytes_of(to), static_cast<std::uint32_t>(b.rank));
  }
  b.copy(input(begin(b.rank)), scratch(me * stride), bytes);
  for (int i = 1; i < b.size; ++i) {
    const int from = (b.rank - i + b.size) % b.size;
    b.receive(from, static_cast<std::uint32_t>(from), bytes);
  }
  return {scratch(), stride};
}

/// Each rank sends its reduced slice to all others.
void share_slices(Builder& b, const Slices& slices) {
  const auto size = static_cast<std::uint32_t>(b.size);
  // The area begins at the same offset on all ranks: after the contributions to the largest slice.
  const std::uint64_t area = size * line_up(slices.largest());
  b.need_scratch(area + b.call.count * b.call.element_bytes);
  for (int i = 1; i < b.size; ++i) {
    const int to = (b.rank + i) % b.size;
    b.send(output(slices.begin(b.rank)), to, area + slices.begin(b.rank), slices.bytes(b.rank),
           size + static_cast<std::uint32_t>(b.rank));
  }
  b.settle_in_place();
  for (int i = 1; i < b.size; ++i) {
    const int from = (b.rank - i + b.size) % b.size;
    b.receive(from, size + static_cast<std::uint32_t>(from), slices.bytes(from));
    b.copy(scratch(area + slices.begin(from)), output(slices.begin(from)), slices.bytes(from));
  }
}

/// Gathers the whole vectors of all ranks, in rank order.
Place gather_all(Builder& b) {
  const std::uint64_t bytes = b.call.count * b.call.element_bytes;
  const Blocks natural(b.size, b.call), rotated(b.size, b.call, b.rank);
  const Group group = whole_team(b, b.take_scratch(natural.total()));
  Exchange x(b, group);
  const Place turned = allgather_part(x, input(), natural);
  const Place all = scratch(b.take_scratch(static_cast<std::uint64_t>(b.size) * bytes));
  unrotate(b, rotated, turned, all);
  return all;
}

}  // namespace

void allreduce_fold_slices(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Slices slices(call.count, b.size, call.element_bytes);
  const Contributions parts = exchange_parts(
      b, [&](int slice) { return slices.begin(slice); }, [&](int slice) { return slices.bytes(slice); });
  b.fold(parts.first, parts.stride, b.size, output(slices.begin(rank)), slices.bytes(rank));
  share_slices(b, slices);
  b.finish();
}

void allreduce_fold_gathered(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  b.fold(gather_all(b), bytes, b.size, output(), bytes);
  b.finish();
}

void reduce_scatter_fold(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  const Contributions parts = exchange_parts(
      b, [&](int block) { return blocks.place(block); }, [&](int block) { return blocks.bytes(block); });
  b.settle_in_place();
  b.fold(parts.first, parts.stride, b.size, output(), blocks.bytes(rank));
  b.finish();
}

void reduce_fold(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const Blocks blocks(b.size, call, call.root);
  const Group group = whole_team(b, b.take_scratch(gather_needs(b.size, rank, call.root, blocks).scratch));
  Exchange x(b, group);
  const Place gathered = gather_part(x, call.root, input(), blocks);
  if (rank == call.root) {
    const Place all = scratch(b.take_scratch(blocks.total()));
    unrotate(b, blocks, gathered, all);
    b.fold(all, bytes, b.size, output(), bytes);
  }
  b.finish();
}

void scan_fold(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  b.fold(gather_all(b), bytes, rank + 1, output(), bytes);
  b.finish();
}

void exscan_fold(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const Place all = gather_all(b);
  if (rank > 0) b.fold(all, bytes, rank, output(), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
