// Reduce_scatter by parallel aggregated trees: see parts/pat.hpp. Commutative operations only.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/pat.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceScatterPat {
  static void build(Builder& b) { build_reduce_scatter_pat(b); }
  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return pat_size(shape, call); }
  static void cost(CriticalPath& path, const Call& call) {
    for_each_doubling(path.size, [&](double distance) { cost_of_pat_round(path, call, distance, true); });
    path.copy(cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm reduce_scatter_pat{
    .name = "pat",
    .collective = CollectiveKind::reduce_scatter,
    .keeps_order = false,
    .tuned_by = {.segments = true},
    .build = ReduceScatterPat::build,
    .scratch_size = ReduceScatterPat::scratch_size,
    .cost = ReduceScatterPat::cost,
};

}  // namespace hmc::collectives::schedule
