// Allreduce by recursive doubling and recursive multiplying, for short vectors: see parts/recursive_multiplying.hpp.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/recursive_multiplying.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Radix 4 unless the call has another; doubling: radix 2.
template <bool doubling> struct AllreduceRecursive {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call), scratch = scratch_size(b.shape, b.call).scratch;
    const Group group = whole_team(b, b.allocate_scratch(scratch));
    GroupBuilder x(b, group);
    const Operand result = allreduce_multiplying_in(x, input(), bytes, radix_of(b.call));
    b.flush_local_in_place();
    b.copy(result, output(), bytes);
    b.scale(output(), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return allreduce_multiplying_size(shape.size, vector_bytes(call), radix_of(call));
  }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_allreduce_multiplying(path, cost_bytes(call), radix_of(call));
    path.copy(cost_bytes(call));
  }

 private:
  static int radix_of(const Call& call) { return doubling ? 2 : call.radix > 1 ? call.radix : 4; }
};

}  // namespace

constinit const Algorithm allreduce_recursive_doubling{
    .name = "recursive_doubling",
    .collective = CollectiveKind::allreduce,
    .build = AllreduceRecursive<true>::build,
    .scratch_size = AllreduceRecursive<true>::scratch_size,
    .cost = AllreduceRecursive<true>::cost,
};

constinit const Algorithm allreduce_recursive_multiplying{
    .name = "recursive_multiplying",
    .collective = CollectiveKind::allreduce,
    .tuned_by = {.radix = true},
    .build = AllreduceRecursive<false>::build,
    .scratch_size = AllreduceRecursive<false>::scratch_size,
    .cost = AllreduceRecursive<false>::cost,
};

}  // namespace hmc::collectives::schedule
