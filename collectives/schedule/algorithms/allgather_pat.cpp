// Allgather by parallel aggregated trees: see parts/pat.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/pat.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllgatherPat {
  static void build(Builder& b) { build_allgather_pat(b); }
  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return pat_size(shape, call); }
  static void cost(CriticalPath& path, const Call& call) {
    for_each_halving(path.size, [&](double distance) { cost_of_pat_round(path, call, distance, false); });
    path.copy(path.size * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm allgather_pat{
    .name = "pat",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .tuned_by = {.segments = true},
    .build = AllgatherPat::build,
    .scratch_size = AllgatherPat::scratch_size,
    .cost = AllgatherPat::cost,
};

}  // namespace hmc::collectives::schedule
