// Every algorithm's build function; registry.cpp says what each is good for.
#pragma once

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

using Build = void(const Shape& shape, const Call& call, int rank, Schedule& out);

Build barrier_dissemination;
Build broadcast_binomial;
Build broadcast_double_tree;
Build reduce_binomial;
Build reduce_rabenseifner;
Build reduce_fold;
Build allreduce_doubling;
Build allreduce_multiplying;
Build allreduce_rabenseifner;
Build allreduce_swing;
Build allreduce_ring;
Build allreduce_ring_segmented;
Build allreduce_double_tree;
Build allreduce_fold_slices;
Build allreduce_fold_gathered;
Build gather_binomial;
Build gather_linear;
Build scatter_binomial;
Build scatter_linear;
Build allgather_bruck;
Build allgather_ring;
Build allgather_ring_segmented;
Build allgather_pat;
Build alltoall_bruck;
Build alltoall_pairwise;
Build reduce_scatter_ring;
Build reduce_scatter_ring_segmented;
Build reduce_scatter_pairwise;
Build reduce_scatter_pat;
Build reduce_scatter_fold;
Build scan_doubling;
Build scan_fold;
Build exscan_doubling;
Build exscan_fold;
Build barrier_hierarchical;
Build broadcast_hierarchical;
Build allreduce_hierarchical;
Build allgather_hierarchical;

}  // namespace hmc::collectives::schedule
