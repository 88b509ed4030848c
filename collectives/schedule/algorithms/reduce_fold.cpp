// Deterministic reduce: the root gathers all vectors up a binomial tree and folds them in rank order.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceFold {
  static void build(Builder& b) {
    const int root = b.call.root;
    const std::uint64_t bytes = vector_bytes(b.call);
    const Blocks blocks(b.size, b.call, root);
    const Group group = whole_team(b, b.allocate_scratch(gather_binomial_scratch(b.size, b.rank, root, blocks)));
    GroupBuilder x(b, group);
    const Operand gathered = gather_binomial_in(x, root, input(), blocks);
    if (b.rank != root) return;
    const Operand all = scratch(b.allocate_scratch(blocks.total()));
    unpack_blocks(b, blocks, gathered, all);
    b.fold(all, bytes, b.size, output(), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {align_to_line(team_bytes(shape, call)) + team_bytes(shape, call), slot_number(rounds_of(shape.size))};
  }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_gather_binomial(path, cost_bytes(call));
    path.copy(path.size * cost_bytes(call));
    path.reduce(path.size * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm reduce_fold{
    .name = "fold",
    .collective = CollectiveKind::reduce,
    .deterministic = true,
    .build = ReduceFold::build,
    .scratch_size = ReduceFold::scratch_size,
    .cost = ReduceFold::cost,
};

}  // namespace hmc::collectives::schedule
