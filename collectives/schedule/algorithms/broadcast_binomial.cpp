// Broadcast down a binomial tree: ceil(log2 N) hops, each of the whole message. The copy to the output overlaps the
// messages to the children.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/binomial.hpp"

namespace hmc::collectives::schedule {
namespace {

struct BroadcastBinomial {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call);
    const Group group = whole_team(b, b.rank == b.call.root ? 0 : b.allocate_scratch(bytes));
    GroupBuilder x(b, group);
    b.copy(broadcast_binomial_in(x, b.call.root, input(), bytes), output(), bytes);
  }

  static ScratchSize scratch_size(const Shape&, const Call& call) { return {vector_bytes(call), 1}; }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_binomial(
        path.size, [&](double distance) { path.hop(distance, cost_bytes(call)); },
        [&](double distance) { path.send_only(distance, cost_bytes(call)); });
    path.copy(cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm broadcast_binomial{
    .name = "binomial",
    .collective = CollectiveKind::broadcast,
    .deterministic = true,
    .build = BroadcastBinomial::build,
    .scratch_size = BroadcastBinomial::scratch_size,
    .cost = BroadcastBinomial::cost,
};

}  // namespace hmc::collectives::schedule
