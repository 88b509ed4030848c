// The table of algorithms.
#include <algorithm>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::collectives::schedule {
namespace {

bool always(const Shape&, const Call&) { return true; }

// name, collective, keeps_order, deterministic, hierarchical, tuned_by, suits, build
constexpr Algorithm table[] = {
    {"dissemination", Collective::barrier, true, true, false, {}, always, barrier_dissemination},
    {"binomial", Collective::broadcast, true, true, false, {}, always, broadcast_binomial},
};

}  // namespace

std::span<const Algorithm> algorithms() { return table; }

const Algorithm* find(Collective collective, std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const Algorithm& algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return found == std::end(table) ? nullptr : found;
}

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
