#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

bool Algorithm::applies(const Shape& shape, const Call& call) const {
  if (call.collective != collective) return false;
  if (reduces(collective) && call.deterministic && !deterministic) return false;
  if (reduces(collective) && !call.commutative && !keeps_order) return false;
  return suits(shape, call);
}

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank) {
  Schedule schedule;
  algorithm.build_into(shape, call, rank, schedule);
  return schedule;
}

}  // namespace hmc::collectives::schedule
