// Swing: Rabenseifner's allreduce with partners at distance 1, -1, 3, -5, 11, ... (forwards for even ranks, backwards
// for odd ones). On rings and tori this halves the distances, roughly. Commutative operations only.
#include <cmath>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/halving.hpp"

namespace hmc::collectives::schedule {
namespace {

/// 1, -1, 3, -5, 11, -21, ...
constexpr std::int64_t swing_distance(int round) {
  const std::int64_t power = std::int64_t{2} << round;
  return (1 - (round % 2 == 0 ? -power : power)) / 3;
}

/// Pairs of neighbours in round 0, later across node borders.
void cost_of_swing(CriticalPath& path, int round, double every, double bytes) {
  const double distance = std::floor((std::exp2(round + 1) + 1) / 3),
               taking_part = std::max(1.0, path.per_node / every);
  if (path.nodes == 1 || (round == 0 && path.per_node % 2 == 0 && every == 1)) return path.node_message(bytes);
  path.network_message(bytes, std::clamp(distance + 1, 1.0, taking_part));
}

/// After round s a rank can still reach the even ranks that are congruent to it modulo 2^(s+2), and the odd ranks
/// swing_distance(s+1) after those. So the next bit of that residue selects the half.
constexpr HalvingPartners swing_partners{
    [](int number, int round, int size) {
      const std::int64_t distance = swing_distance(round);
      return static_cast<int>(((number % 2 == 0 ? number + distance : number - distance) % size + size) % size);
    },
    [](int number, int round, int rounds) {
      if (round == rounds - 1) return number % 2 != 0;
      const std::int64_t even = number % 2 == 0 ? number : number - swing_distance(round + 1);
      return (even >> (round + 1) & 1) != 0;
    },
    cost_of_swing};

struct AllreduceSwing {
  static void build(Builder& b) {
    const std::uint64_t scratch = scratch_size(b.shape, b.call).scratch;
    const Group group = whole_team(b, b.allocate_scratch(scratch));
    GroupBuilder x(b, group);
    allreduce_halving_in(x, swing_partners, input(), output(), b.call.count);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    return halving_size(shape.size, call.count, call.element_bytes);
  }

  static void cost(CriticalPath& path, const Call& call) {
    cost_of_allreduce_halving(path, cost_bytes(call), swing_partners);
  }
};

}  // namespace

constinit const Algorithm allreduce_swing{
    .name = "swing",
    .collective = CollectiveKind::allreduce,
    .keeps_order = false,
    .build = AllreduceSwing::build,
    .scratch_size = AllreduceSwing::scratch_size,
    .cost = AllreduceSwing::cost,
};

}  // namespace hmc::collectives::schedule
