// Declares the functions of all algorithms. Their properties are in registry.cpp.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/schedule.hpp"

#define HMC_FOR_EACH_ALGORITHM(X)   \
  X(barrier_dissemination)          \
  X(broadcast_binomial)             \
  X(broadcast_double_tree)          \
  X(reduce_binomial)                \
  X(reduce_rabenseifner)            \
  X(reduce_fold)                    \
  X(allreduce_doubling)             \
  X(allreduce_multiplying)          \
  X(allreduce_rabenseifner)         \
  X(allreduce_swing)                \
  X(allreduce_ring)                 \
  X(allreduce_ring_segmented)       \
  X(allreduce_double_tree)          \
  X(allreduce_fold_slices)          \
  X(allreduce_fold_gathered)        \
  X(gather_binomial)                \
  X(gather_linear)                  \
  X(scatter_binomial)               \
  X(scatter_linear)                 \
  X(allgather_bruck)                \
  X(allgather_ring)                 \
  X(allgather_ring_segmented)       \
  X(allgather_pat)                  \
  X(alltoall_bruck)                 \
  X(alltoall_pairwise)              \
  X(reduce_scatter_ring)            \
  X(reduce_scatter_ring_segmented)  \
  X(reduce_scatter_pairwise)        \
  X(reduce_scatter_pat)             \
  X(reduce_scatter_fold)            \
  X(scan_doubling)                  \
  X(scan_fold)                      \
  X(exscan_doubling)                \
  X(exscan_fold)                    \
  X(barrier_hierarchical)           \
  X(broadcast_hierarchical)         \
  X(allreduce_hierarchical)         \
  X(allreduce_hierarchical_halving) \
  X(allgather_hierarchical)         \
  X(allgather_hierarchical_ring)

namespace hmc::collectives::schedule {

#define HMC_DECLARE(name) void name(const Shape& shape, const Call& call, int rank, Schedule& out);
HMC_FOR_EACH_ALGORITHM(HMC_DECLARE)
#undef HMC_DECLARE

/// scratch_size.cpp
namespace scratch_size {
#define HMC_DECLARE(name) ScratchSize name(const Shape& shape, const Call& call);
HMC_FOR_EACH_ALGORITHM(HMC_DECLARE)
#undef HMC_DECLARE
}  // namespace scratch_size

/// costs_move.cpp, costs_reduce.cpp
namespace costs {
#define HMC_DECLARE(name) void name(Path& path, const Call& call);
HMC_FOR_EACH_ALGORITHM(HMC_DECLARE)
#undef HMC_DECLARE
}  // namespace costs

#undef HMC_FOR_EACH_ALGORITHM

}  // namespace hmc::collectives::schedule
