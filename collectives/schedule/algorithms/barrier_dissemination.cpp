// Barrier by dissemination: in round k each rank signals the rank 2^k after it. ceil(log2 N) rounds for any N.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct BarrierDissemination {
  static void build(Builder& b) {
    std::uint32_t round = 0;
    for (int distance = 1; distance < b.size; distance *= 2, ++round) {
      b.signal((b.rank + distance) % b.size, round);
      b.wait((b.rank - distance + b.size) % b.size, round);
    }
  }

  static ScratchSize scratch_size(const Shape& shape, const Call&) { return {0, slot_number(rounds_of(shape.size))}; }

  static void cost(CriticalPath& path, const Call&) {
    for_each_doubling(path.size, [&](double distance) { path.shift(distance, 0); });
  }
};

}  // namespace

constinit const Algorithm barrier_dissemination{
    .name = "dissemination",
    .collective = CollectiveKind::barrier,
    .deterministic = true,
    .build = BarrierDissemination::build,
    .scratch_size = BarrierDissemination::scratch_size,
    .cost = BarrierDissemination::cost,
};

}  // namespace hmc::collectives::schedule
