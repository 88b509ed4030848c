#include "verify/contents.hpp"

namespace hmc::verify {

using collectives::has_blocks_in;
using collectives::has_blocks_out;

namespace {

using schedule::Call;

std::uint64_t count_of(const Call& call, int block) {
  return call.irregular() ? call.counts[static_cast<std::size_t>(block)] : call.count;
}

std::uint64_t place_among(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements,
                          int block) {
  if (!displacements.empty()) return displacements[static_cast<std::size_t>(block)];
  std::uint64_t at = 0;
  for (int i = 0; i < block; ++i) at += counts[static_cast<std::size_t>(i)];
  return at;
}

std::uint64_t place_of(const Call& call, int block) {
  if (call.irregular()) return place_among(call.counts, call.displacements, block);
  return call.count * static_cast<std::uint64_t>(block);
}

/// The position of block `block` in the concatenated blocks, without the buffer's gaps.
std::uint64_t packed_place_of(const Call& call, int block) {
  if (call.irregular()) return place_among(call.counts, {}, block);
  return call.count * static_cast<std::uint64_t>(block);
}

void add(Contents& contents, const Call& call, std::uint64_t at, std::uint64_t count, std::uint64_t position,
         Value value) {
  const std::uint64_t element = call.element_bytes;
  if (count > 0) contents.push_back({at * element, {count * element, position * element, value}});
}

Contents all_blocks_of(const Call& call, int size) {
  Contents contents;
  if (!call.irregular()) {
    add(contents, call, 0, call.count * static_cast<std::uint64_t>(size), 0, all_blocks);
    return contents;
  }
  std::uint64_t packed = 0;
  for (int r = 0; r < size; ++r) {
    const std::uint64_t at = call.displacements.empty() ? packed : place_of(call, r);
    add(contents, call, at, count_of(call, r), packed, all_blocks);
    packed += count_of(call, r);
  }
  return contents;
}

/// Output of alltoall: block r is rank r's block for `me`.
Contents blocks_from_all(const Case& subject, int me, Values& values) {
  Contents contents;
  const Call mine = subject.call_of(me);
  std::uint64_t packed = 0;
  for (int r = 0; r < subject.shape().size; ++r) {
    const Call theirs = subject.call_of(r);
    const std::uint64_t count = count_of(theirs, me);
    std::uint64_t at = packed;
    if (mine.irregular() && !mine.receive_displacements.empty())
      at = mine.receive_displacements[static_cast<std::size_t>(r)];
    add(contents, mine, at, count, place_of(theirs, me), values.contribution(static_cast<std::uint32_t>(r)));
    packed += count;
  }
  return contents;
}

}  // namespace

Contents input_of(const Case& subject, int rank, Values& values) {
  const Call call = subject.call_of(rank);
  const std::uint64_t bytes = input_bytes(subject.shape(), call, rank);
  if (bytes == 0) return {};
  if (has_blocks_out(call.collective) && !has_blocks_in(call.collective))
    return {{0, {bytes, packed_place_of(call, rank) * call.element_bytes, all_blocks}}};
  return {{0, {bytes, 0, values.contribution(static_cast<std::uint32_t>(rank))}}};
}

Contents required_output_of(const Case& subject, int rank, Values& values) {
  const Call call = subject.call_of(rank);
  const int size = subject.shape().size;
  const auto end_of_team = static_cast<std::uint32_t>(size), me = static_cast<std::uint32_t>(rank);
  const auto result_of = [&](std::uint32_t end) {
    const Value sum = values.run(0, end);
    return call.op == Op::avg ? values.scaled(sum) : sum;
  };
  Contents contents;
  switch (call.collective) {
    case CollectiveKind::barrier: break;
    case CollectiveKind::broadcast:
      add(contents, call, 0, call.count, 0, values.contribution(static_cast<std::uint32_t>(call.root)));
      break;
    case CollectiveKind::reduce:
      if (rank == call.root) add(contents, call, 0, call.count, 0, result_of(end_of_team));
      break;
    case CollectiveKind::allreduce: add(contents, call, 0, call.count, 0, result_of(end_of_team)); break;
    case CollectiveKind::gather:
      if (rank == call.root) return all_blocks_of(call, size);
      break;
    case CollectiveKind::allgather: return all_blocks_of(call, size);
    case CollectiveKind::scatter:
      add(contents, call, 0, count_of(call, rank), place_of(call, rank),
          values.contribution(static_cast<std::uint32_t>(call.root)));
      break;
    case CollectiveKind::alltoall: return blocks_from_all(subject, rank, values);
    case CollectiveKind::reduce_scatter:
      add(contents, call, 0, count_of(call, rank), place_of(call, rank), result_of(end_of_team));
      break;
    case CollectiveKind::scan: add(contents, call, 0, call.count, 0, result_of(me + 1)); break;
    case CollectiveKind::exscan:
      if (rank > 0) add(contents, call, 0, call.count, 0, result_of(me));
      break;
  }
  return contents;
}

BufferOverlap buffer_overlap_of(const Case& subject, int rank) {
  const Call call = subject.call_of(rank);
  if (!call.in_place) return {};
  const CollectiveKind kind = call.collective;
  if (kind == CollectiveKind::barrier || (has_root(kind) && rank != call.root)) return {};
  if (reduces(kind) || has_blocks_in(kind) == has_blocks_out(kind)) return {true, 0, 0};
  const std::uint64_t own_block = place_of(call, rank) * call.element_bytes;
  return {true, has_blocks_out(kind) ? own_block : 0, has_blocks_in(kind) ? own_block : 0};
}

}  // namespace hmc::verify
