// Deterministic exscan: each rank gathers all vectors and folds those of the ranks before itself.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/fold.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ExscanFold {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call);
    const Operand all = gather_vectors(b);
    if (b.rank > 0) b.fold(all, bytes, b.rank, output(), bytes);
  }
  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return gathered_vectors_size(shape, call); }
  static void cost(CriticalPath& path, const Call& call) { cost_of_gathered_fold(path, call); }
};

}  // namespace

constinit const Algorithm exscan_fold{
    .name = "fold",
    .collective = CollectiveKind::exscan,
    .deterministic = true,
    .supports = supports_prefix,
    .build = ExscanFold::build,
    .scratch_size = ExscanFold::scratch_size,
    .cost = ExscanFold::cost,
};

}  // namespace hmc::collectives::schedule
