// Deterministic reduce_scatter: each rank receives all contributions to its block and folds them in rank order.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/fold.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceScatterFold {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    const Contributions contributions = exchange_contributions(
        b, [&](int block) { return blocks.offset(block); }, [&](int block) { return blocks.bytes(block); });
    b.flush_local_in_place();
    b.fold(contributions.first, contributions.stride, b.size, output(), blocks.bytes(b.rank));
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {static_cast<std::uint64_t>(shape.size) * align_to_line(vector_bytes(call)), slot_number(shape.size)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    path.copy(cost_bytes(call));
    path.all_to_all(cost_bytes(call));
    path.reduce(path.size * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm reduce_scatter_fold{
    .name = "fold",
    .collective = CollectiveKind::reduce_scatter,
    .deterministic = true,
    .build = ReduceScatterFold::build,
    .scratch_size = ReduceScatterFold::scratch_size,
    .cost = ReduceScatterFold::cost,
};

}  // namespace hmc::collectives::schedule
