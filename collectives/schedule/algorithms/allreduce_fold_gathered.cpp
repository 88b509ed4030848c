// Deterministic allreduce for short vectors: each rank gathers all vectors (Bruck, ceil(log2 N) rounds) and folds them.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/fold.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllreduceFoldGathered {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call);
    b.fold(gather_vectors(b), bytes, b.size, output(), bytes);
  }
  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return gathered_vectors_size(shape, call); }
  static void cost(CriticalPath& path, const Call& call) { cost_of_gathered_fold(path, call); }
};

}  // namespace

constinit const Algorithm allreduce_fold_gathered{
    .name = "fold_gathered",
    .collective = CollectiveKind::allreduce,
    .deterministic = true,
    .build = AllreduceFoldGathered::build,
    .scratch_size = AllreduceFoldGathered::scratch_size,
    .cost = AllreduceFoldGathered::cost,
};

}  // namespace hmc::collectives::schedule
