#include "collectives/schedule/algorithms/registry.hpp"

#include <algorithm>
#include <iterator>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::collectives::schedule {
namespace {

using C = Collective;

bool always(const Shape&, const Call&) { return true; }
bool regular(const Shape&, const Call& call) { return !call.irregular(); }
/// An average over a part of the team isn't defined.
bool no_average(const Shape&, const Call& call) { return call.op != Op::avg; }

#define HMC_FORM(name) name, scratch_size::name, costs::name

// name, collective, keeps_order, deterministic, hierarchical, tuned_by, suits; build, needs, cost
constexpr Algorithm table[] = {
    {"dissemination", C::barrier, true, true, false, {}, always, HMC_FORM(barrier_dissemination)},
    {"hierarchical", C::barrier, true, true, true, {}, always, HMC_FORM(barrier_hierarchical)},

    {"binomial", C::broadcast, true, true, false, {}, always, HMC_FORM(broadcast_binomial)},
    {"double_tree", C::broadcast, true, true, false, {.segments = true}, always, HMC_FORM(broadcast_double_tree)},
    {"hierarchical", C::broadcast, true, true, true, {}, always, HMC_FORM(broadcast_hierarchical)},

    {"binomial", C::reduce, true, false, false, {}, always, HMC_FORM(reduce_binomial)},
    {"rabenseifner", C::reduce, true, false, false, {}, always, HMC_FORM(reduce_rabenseifner)},
    {"fold", C::reduce, true, true, false, {}, always, HMC_FORM(reduce_fold)},

    {"recursive_doubling", C::allreduce, true, false, false, {}, always, HMC_FORM(allreduce_doubling)},
    {"recursive_multiplying",
     C::allreduce,
     true,
     false,
     false,
     {.radix = true},
     always,
     HMC_FORM(allreduce_multiplying)},
    {"rabenseifner", C::allreduce, true, false, false, {}, always, HMC_FORM(allreduce_rabenseifner)},
    {"swing", C::allreduce, false, false, false, {}, always, HMC_FORM(allreduce_swing)},
    {"ring", C::allreduce, false, false, false, {}, always, HMC_FORM(allreduce_ring)},
    {"ring_segmented",
     C::allreduce,
     false,
     false,
     false,
     {.segments = true},
     always,
     HMC_FORM(allreduce_ring_segmented)},
    {"double_tree", C::allreduce, true, false, false, {.segments = true}, always, HMC_FORM(allreduce_double_tree)},
    {"fold_slices", C::allreduce, true, true, false, {}, always, HMC_FORM(allreduce_fold_slices)},
    {"fold_gathered", C::allreduce, true, true, false, {}, always, HMC_FORM(allreduce_fold_gathered)},
    {"hierarchical", C::allreduce, true, false, true, {}, always, HMC_FORM(allreduce_hierarchical)},
    {"hierarchical_halving", C::allreduce, true, false, true, {}, always, HMC_FORM(allreduce_hierarchical_halving)},

    {"binomial", C::gather, true, true, false, {}, always, HMC_FORM(gather_binomial)},
    {"linear", C::gather, true, true, false, {}, always, HMC_FORM(gather_linear)},

    {"binomial", C::scatter, true, true, false, {}, always, HMC_FORM(scatter_binomial)},
    {"linear", C::scatter, true, true, false, {}, always, HMC_FORM(scatter_linear)},

    {"bruck", C::allgather, true, true, false, {}, always, HMC_FORM(allgather_bruck)},
    {"ring", C::allgather, true, true, false, {}, always, HMC_FORM(allgather_ring)},
    {"ring_segmented", C::allgather, true, true, false, {.segments = true}, always, HMC_FORM(allgather_ring_segmented)},
    {"pat", C::allgather, true, true, false, {.segments = true}, always, HMC_FORM(allgather_pat)},
    {"hierarchical", C::allgather, true, true, true, {}, always, HMC_FORM(allgather_hierarchical)},
    {"hierarchical_ring", C::allgather, true, true, true, {}, always, HMC_FORM(allgather_hierarchical_ring)},

    {"bruck", C::alltoall, true, true, false, {}, regular, HMC_FORM(alltoall_bruck)},
    {"pairwise", C::alltoall, true, true, false, {.segments = true}, always, HMC_FORM(alltoall_pairwise)},

    {"ring", C::reduce_scatter, false, false, false, {}, always, HMC_FORM(reduce_scatter_ring)},
    {"ring_segmented",
     C::reduce_scatter,
     false,
     false,
     false,
     {.segments = true},
     always,
     HMC_FORM(reduce_scatter_ring_segmented)},
    {"pairwise", C::reduce_scatter, false, false, false, {}, always, HMC_FORM(reduce_scatter_pairwise)},
    {"pat", C::reduce_scatter, false, false, false, {.segments = true}, always, HMC_FORM(reduce_scatter_pat)},
    {"fold", C::reduce_scatter, true, true, false, {}, always, HMC_FORM(reduce_scatter_fold)},

    {"recursive_doubling", C::scan, true, false, false, {}, no_average, HMC_FORM(scan_doubling)},
    {"fold", C::scan, true, true, false, {}, no_average, HMC_FORM(scan_fold)},

    {"recursive_doubling", C::exscan, true, false, false, {}, no_average, HMC_FORM(exscan_doubling)},
    {"fold", C::exscan, true, true, false, {}, no_average, HMC_FORM(exscan_fold)},
};

#undef HMC_FORM

}  // namespace

std::span<const Algorithm> algorithms() { return table; }

const Algorithm* find(Collective collective, std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const Algorithm& algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace hmc::collectives::schedule
