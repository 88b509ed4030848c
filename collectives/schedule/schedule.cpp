#include "collectives/schedule/schedule.hpp"

#include <algorithm>

#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

namespace {

std::uint64_t extent_of(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    end = displacements.empty() ? end + counts[i] : counts[i] > 0 ? std::max(end, displacements[i] + counts[i]) : end;
  return end;
}

/// All blocks, one per rank.
std::uint64_t all_elements(const Shape& shape, const Call& call) {
  return call.irregular() ? extent_of(call.counts, call.displacements)
                          : call.count * static_cast<std::uint64_t>(shape.size);
}

std::uint64_t own_elements(const Call& call, int rank) {
  return call.irregular() ? call.counts[static_cast<std::size_t>(rank)] : call.count;
}

}  // namespace

std::uint64_t input_bytes(const Shape& shape, const Call& call, int rank) {
  const std::uint64_t element = call.element_bytes;
  switch (call.collective) {
    case CollectiveKind::barrier: return 0;
    case CollectiveKind::broadcast: return rank == call.root ? call.count * element : 0;
    case CollectiveKind::scatter: return rank == call.root ? all_elements(shape, call) * element : 0;
    case CollectiveKind::gather:
    case CollectiveKind::allgather: return own_elements(call, rank) * element;
    case CollectiveKind::alltoall:
    case CollectiveKind::reduce_scatter: return all_elements(shape, call) * element;
    default: return call.count * element;
  }
}

std::uint64_t output_bytes(const Shape& shape, const Call& call, int rank) {
  const std::uint64_t element = call.element_bytes;
  switch (call.collective) {
    case CollectiveKind::barrier: return 0;
    case CollectiveKind::reduce: return rank == call.root ? call.count * element : 0;
    case CollectiveKind::gather: return rank == call.root ? all_elements(shape, call) * element : 0;
    case CollectiveKind::allgather: return all_elements(shape, call) * element;
    case CollectiveKind::alltoall:
      return (call.irregular() ? extent_of(call.receive_counts, call.receive_displacements)
                               : call.count * static_cast<std::uint64_t>(shape.size)) *
             element;
    case CollectiveKind::scatter:
    case CollectiveKind::reduce_scatter: return own_elements(call, rank) * element;
    default: return call.count * element;
  }
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
