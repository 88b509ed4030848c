// Rabenseifner's reduce: recursive halving, then a gather of the slices to the root.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/halving.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ReduceRabenseifner {
  static void build(Builder& b) {
    const std::uint64_t scratch = scratch_size(b.shape, b.call).scratch;
    const Group group = whole_team(b, b.allocate_scratch(scratch));
    GroupBuilder x(b, group);
    reduce_halving_in(x, b.call.root, input(), output(), b.call.count);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return halving_size(shape.size, call.count, call.element_bytes);
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call);
    const ClusterCost clusters = ClusterCost::of_team(path, 2);
    const double members = clusters.count();
    clusters.reduce_to_leader(path, bytes);
    cost_of_halving(path, members, bytes, bit_partners);
    double part = bytes / members;
    path.copy(part);
    for (int round = rounds_of(clusters.clusters().count) - 1; round >= 0; --round, part *= 2)
      bit_partners.cost(path, round, path.size / members, part);
    path.copy(bytes);
  }
};

}  // namespace

constinit const Algorithm reduce_rabenseifner{
    .name = "rabenseifner",
    .collective = CollectiveKind::reduce,
    .build = ReduceRabenseifner::build,
    .scratch_size = ReduceRabenseifner::scratch_size,
    .cost = ReduceRabenseifner::cost,
};

}  // namespace hmc::collectives::schedule
