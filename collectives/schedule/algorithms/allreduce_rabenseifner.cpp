// Rabenseifner's allreduce: recursive halving, then recursive doubling. For long vectors; order is kept.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/halving.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllreduceRabenseifner {
  static void build(Builder& b) {
    const std::uint64_t scratch = scratch_size(b.shape, b.call).scratch;
    const Group group = whole_team(b, b.allocate_scratch(scratch));
    GroupBuilder x(b, group);
    allreduce_halving_in(x, bit_partners, input(), output(), b.call.count);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return halving_size(shape.size, call.count, call.element_bytes);
  }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_allreduce_halving(path, cost_bytes(call), bit_partners);
  }
};

}  // namespace

constinit const Algorithm allreduce_rabenseifner{
    .name = "rabenseifner",
    .collective = CollectiveKind::allreduce,
    .build = AllreduceRabenseifner::build,
    .scratch_size = AllreduceRabenseifner::scratch_size,
    .cost = AllreduceRabenseifner::cost,
};

}  // namespace hmc::collectives::schedule
