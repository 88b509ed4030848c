#include "collectives/schedule/schedule.hpp"

#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

bool Algorithm::applies(const Shape& shape, const Call& call) const {
  if (call.collective != collective) return false;
  if (reduces(collective) && call.deterministic && !deterministic) return false;
  if (reduces(collective) && !call.commutative && !keeps_order) return false;
  return supports(shape, call);
}

void Algorithm::build_into(const Shape& shape, const Call& call, int rank, Schedule& out) const {
  Builder builder(shape, call, rank, out);
  build(builder);
  builder.flush_local();
}

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank) {
  Schedule schedule;
  algorithm.build_into(shape, call, rank, schedule);
  return schedule;
}

}  // namespace hmc::collectives::schedule
