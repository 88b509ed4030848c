#include "collectives/schedule/schedule.hpp"

#include <algorithm>

#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/kinds.hpp"

namespace hmc::collectives::schedule {

namespace {

std::uint64_t extent_of(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    end = displacements.empty() ? end + counts[i] : counts[i] > 0 ? std::max(end, displacements[i] + counts[i]) : end;
  return end;
}

/// `counts`, `displacements`: of the blocks in this buffer.
std::uint64_t bytes_of(Holds holds, const Shape& shape, const Call& call, int rank,
                       std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements) {
  if (holds == Holds::nothing || (only_at_root(holds) && rank != call.root)) return 0;
  std::uint64_t elements = call.count;
  if (are_blocks(holds))
    elements =
        call.irregular() ? extent_of(counts, displacements) : call.count * static_cast<std::uint64_t>(shape.size);
  else if (call.irregular())
    elements = counts[static_cast<std::size_t>(rank)];
  return elements * call.element_bytes;
}

}  // namespace

std::uint64_t input_bytes(const Shape& shape, const Call& call, int rank) {
  return bytes_of(row_of(call.collective).in, shape, call, rank, call.counts, call.displacements);
}

std::uint64_t output_bytes(const Shape& shape, const Call& call, int rank) {
  const Holds holds = row_of(call.collective).out;
  if (has_blocks_in(call.collective) && has_blocks_out(call.collective))
    return bytes_of(holds, shape, call, rank, call.receive_counts, call.receive_displacements);
  return bytes_of(holds, shape, call, rank, call.counts, call.displacements);
}

bool Algorithm::applies(const Shape& shape, const Call& call) const {
  if (call.collective != collective || (gets && !shape.shares_memory)) return false;
  if (reduces(collective) && call.deterministic && !deterministic) return false;
  if (reduces(collective) && !call.commutative && !keeps_order) return false;
  return supports(shape, call);
}

void Algorithm::build_into(const Shape& shape, const Call& call, int rank, Schedule& out) const {
  Builder builder(shape, call, rank, out);
  build(builder);
  builder.flush_local();
}

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank) {
  Schedule schedule;
  algorithm.build_into(shape, call, rank, schedule);
  return schedule;
}

}  // namespace hmc::collectives::schedule
