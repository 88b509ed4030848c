// Deterministic scan: each rank gathers all vectors and folds those of the ranks up to itself.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/fold.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ScanFold {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call);
    b.fold(gather_vectors(b), bytes, b.rank + 1, output(), bytes);
  }
  static ScratchSize scratch_size(const Shape& shape, const Call& call) { return gathered_vectors_size(shape, call); }
  static void cost(CriticalPath& path, const Call& call) { cost_of_gathered_fold(path, call); }
};

}  // namespace

constinit const Algorithm scan_fold{
    .name = "fold",
    .collective = CollectiveKind::scan,
    .deterministic = true,
    .supports = supports_prefix,
    .build = ScanFold::build,
    .scratch_size = ScanFold::scratch_size,
    .cost = ScanFold::cost,
};

}  // namespace hmc::collectives::schedule
