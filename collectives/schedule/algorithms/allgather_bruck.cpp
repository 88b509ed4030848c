// Allgather by Bruck: ceil(log2 N) rounds for any N. The last step copies the blocks to their places in the output.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/bruck.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllgatherBruck {
  static void build(Builder& b) {
    const Blocks blocks(b.size, b.call);
    const Group group = whole_team(b, b.allocate_scratch(blocks.total()));
    GroupBuilder x(b, group);
    unpack_blocks(b, Blocks(b.size, b.call, b.rank), allgather_bruck_in(x, input(), blocks), output());
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return {team_bytes(shape, call), slot_number(rounds_of(shape.size))};
  }

  static void cost(CriticalPath& path, const Call& call) {
    path.copy(cost_bytes(call));
    cost_of_allgather_bruck(path, cost_bytes(call));
    path.copy(path.size * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm allgather_bruck{
    .name = "bruck",
    .collective = CollectiveKind::allgather,
    .deterministic = true,
    .build = AllgatherBruck::build,
    .scratch_size = AllgatherBruck::scratch_size,
    .cost = AllgatherBruck::cost,
};

}  // namespace hmc::collectives::schedule
