// The table of algorithms.
#include <algorithm>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::collectives::schedule {
namespace {

using C = Collective;

bool always(const Shape&, const Call&) { return true; }
bool regular(const Shape&, const Call& call) { return !call.irregular(); }
/// An average over a part of the team isn't defined.
bool no_average(const Shape&, const Call& call) { return call.op != Op::avg; }

// name, collective, keeps_order, deterministic, hierarchical, tuned_by, suits, build
constexpr Algorithm table[] = {
    {"dissemination", C::barrier, true, true, false, {}, always, barrier_dissemination},
    {"hierarchical", C::barrier, true, true, true, {}, always, barrier_hierarchical},

    {"binomial", C::broadcast, true, true, false, {}, always, broadcast_binomial},
    {"double_tree", C::broadcast, true, true, false, {.segments = true}, always, broadcast_double_tree},
    {"hierarchical", C::broadcast, true, true, true, {}, always, broadcast_hierarchical},

    {"binomial", C::reduce, true, false, false, {}, always, reduce_binomial},
    {"rabenseifner", C::reduce, true, false, false, {}, always, reduce_rabenseifner},
    {"fold", C::reduce, true, true, false, {}, always, reduce_fold},

    {"recursive_doubling", C::allreduce, true, false, false, {}, always, allreduce_doubling},
    {"recursive_multiplying", C::allreduce, true, false, false, {.radix = true}, always, allreduce_multiplying},
    {"rabenseifner", C::allreduce, true, false, false, {}, always, allreduce_rabenseifner},
    {"swing", C::allreduce, false, false, false, {}, always, allreduce_swing},
    {"ring", C::allreduce, false, false, false, {}, always, allreduce_ring},
    {"ring_segmented", C::allreduce, false, false, false, {.segments = true}, always, allreduce_ring_segmented},
    {"double_tree", C::allreduce, true, false, false, {.segments = true}, always, allreduce_double_tree},
    {"fold_slices", C::allreduce, true, true, false, {}, always, allreduce_fold_slices},
    {"fold_gathered", C::allreduce, true, true, false, {}, always, allreduce_fold_gathered},
    {"hierarchical", C::allreduce, true, false, true, {}, always, allreduce_hierarchical},

    {"binomial", C::gather, true, true, false, {}, always, gather_binomial},
    {"linear", C::gather, true, true, false, {}, always, gather_linear},

    {"binomial", C::scatter, true, true, false, {}, always, scatter_binomial},
    {"linear", C::scatter, true, true, false, {}, always, scatter_linear},

    {"bruck", C::allgather, true, true, false, {}, always, allgather_bruck},
    {"ring", C::allgather, true, true, false, {}, always, allgather_ring},
    {"ring_segmented", C::allgather, true, true, false, {.segments = true}, always, allgather_ring_segmented},
    {"pat", C::allgather, true, true, false, {.segments = true}, always, allgather_pat},
    {"hierarchical", C::allgather, true, true, true, {}, always, allgather_hierarchical},

    {"bruck", C::alltoall, true, true, false, {}, regular, alltoall_bruck},
    {"pairwise", C::alltoall, true, true, false, {.segments = true}, always, alltoall_pairwise},

    {"ring", C::reduce_scatter, false, false, false, {}, always, reduce_scatter_ring},
    {"ring_segmented",
     C::reduce_scatter,
     false,
     false,
     false,
     {.segments = true},
     always,
     reduce_scatter_ring_segmented},
    {"pairwise", C::reduce_scatter, false, false, false, {}, always, reduce_scatter_pairwise},
    {"pat", C::reduce_scatter, false, false, false, {.segments = true}, always, reduce_scatter_pat},
    {"fold", C::reduce_scatter, true, true, false, {}, always, reduce_scatter_fold},

    {"recursive_doubling", C::scan, true, false, false, {}, no_average, scan_doubling},
    {"fold", C::scan, true, true, false, {}, no_average, scan_fold},

    {"recursive_doubling", C::exscan, true, false, false, {}, no_average, exscan_doubling},
    {"fold", C::exscan, true, true, false, {}, no_average, exscan_fold},
};

}  // namespace

std::span<const Algorithm> algorithms() { return table; }

const Algorithm* find(Collective collective, std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const Algorithm& algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return found == std::end(table) ? nullptr : found;
}

bool Algorithm::applies(const Shape& shape, const Call& call) const {
  if (call.collective != collective) return false;
  if (reduces(collective) && call.deterministic && !deterministic) return false;
  if (reduces(collective) && !call.commutative && !keeps_order) return false;
  return suits(shape, call);
}

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank) {
  Schedule schedule;
  algorithm.build_into(shape, call, rank, schedule);
  return schedule;
}

}  // namespace hmc::collectives::schedule
