// Gather up a binomial tree: ceil(log2 N) messages at the root, for short blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {
namespace {

struct GatherBinomial {
  static void build(Builder& b) {
    const int root = b.call.root;
    const Blocks blocks(b.size, b.call, root);
    const Group group = whole_team(b, b.allocate_scratch(gather_binomial_scratch(b.size, b.rank, root, blocks)));
    GroupBuilder x(b, group);
    const Operand all = gather_binomial_in(x, root, input(), blocks);
    if (b.rank == root) unpack_blocks(b, blocks, all, output());
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {align_to_line(team_bytes(shape, call)), slot_number(rounds_of(shape.size))};
  }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_gather_binomial(path, cost_bytes(call));
    path.copy(path.size * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm gather_binomial{
    .name = "binomial",
    .collective = CollectiveKind::gather,
    .deterministic = true,
    .build = GatherBinomial::build,
    .scratch_size = GatherBinomial::scratch_size,
    .cost = GatherBinomial::cost,
};

}  // namespace hmc::collectives::schedule
