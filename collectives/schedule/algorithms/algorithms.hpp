// The table of algorithms. A file <collective>_<name>.cpp defines its row, or its rows if two algorithms differ in one
// parameter only.
#pragma once

#include <span>
#include <string_view>

#include "collectives/schedule/schedule.hpp"

// Grouped by collective. Tools list the algorithms in this order.
#define HMC_FOR_EACH_ALGORITHM(X)    \
  X(barrier_dissemination)           \
  X(barrier_hierarchical)            \
  X(broadcast_binomial)              \
  X(broadcast_double_tree)           \
  X(broadcast_hierarchical)          \
  X(reduce_binomial)                 \
  X(reduce_rabenseifner)             \
  X(reduce_fold)                     \
  X(allreduce_recursive_doubling)    \
  X(allreduce_recursive_multiplying) \
  X(allreduce_rabenseifner)          \
  X(allreduce_swing)                 \
  X(allreduce_ring)                  \
  X(allreduce_ring_segmented)        \
  X(allreduce_double_tree)           \
  X(allreduce_fold_slices)           \
  X(allreduce_fold_gathered)         \
  X(allreduce_shared_slices)         \
  X(allreduce_hierarchical)          \
  X(allreduce_hierarchical_halving)  \
  X(gather_binomial)                 \
  X(gather_linear)                   \
  X(scatter_binomial)                \
  X(scatter_linear)                  \
  X(allgather_bruck)                 \
  X(allgather_ring)                  \
  X(allgather_ring_segmented)        \
  X(allgather_pat)                   \
  X(allgather_hierarchical)          \
  X(allgather_hierarchical_ring)     \
  X(alltoall_bruck)                  \
  X(alltoall_pairwise)               \
  X(reduce_scatter_ring)             \
  X(reduce_scatter_ring_segmented)   \
  X(reduce_scatter_pairwise)         \
  X(reduce_scatter_pat)              \
  X(reduce_scatter_fold)             \
  X(scan_recursive_doubling)         \
  X(scan_fold)                       \
  X(exscan_recursive_doubling)       \
  X(exscan_fold)

namespace hmc::collectives::schedule {

#define HMC_DECLARE(algorithm) extern const Algorithm algorithm;
HMC_FOR_EACH_ALGORITHM(HMC_DECLARE)
#undef HMC_DECLARE

/// All algorithms, grouped by collective.
std::span<const Algorithm> algorithms();
/// Null if the collective has no algorithm of this name ("ring", "recursive_doubling").
const Algorithm* find(CollectiveKind collective, std::string_view name);

/// For scan and exscan: an average over a part of the team isn't defined.
constexpr bool supports_prefix(const Shape&, const Call& call) { return call.op != Op::avg; }

}  // namespace hmc::collectives::schedule
