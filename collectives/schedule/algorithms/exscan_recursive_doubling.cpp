// Exscan by recursive doubling, as in scan. A rank keeps two sums. The sum with its own contribution goes to other
// ranks. The sum without it is the rank's output.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ExscanRecursiveDoubling {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call), area = align_to_line(bytes);
    const auto rounds = static_cast<std::uint64_t>(rounds_of(b.size));
    b.allocate_scratch((rounds + 1) * area);
    Operand sum = input();
    if (b.call.in_place) {  // the output overwrites the input
      sum = scratch(rounds * area);
      b.copy(input(), sum, bytes);
    }
    std::uint32_t round = 0;
    for (int distance = 1; distance < b.size; distance *= 2, ++round) {
      if (b.rank + distance < b.size) b.send(sum, b.rank + distance, round * area, bytes, round);
      if (b.rank < distance) continue;
      const Operand received = scratch(round * area);
      b.receive(b.rank - distance, round, bytes);
      if (distance == 1)
        b.copy(received, output(), bytes);
      else
        b.reduce_before(received, output(), bytes);
      if (b.rank + distance * 2 >= b.size) continue;  // no rank needs it
      b.reduce(sum, received, bytes);
      sum = received;
    }
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint32_t rounds = slot_number(rounds_of(shape.size));
    return {(rounds + 1) * align_to_line(vector_bytes(call)), rounds};
  }

  /// Two reductions per round. In the first round the sum without the own contribution is a copy. The last
  /// round doesn't need the other sum.
  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call), reductions = 2 - 2.0 / std::max(rounds_of(path.size), 1);
    for_each_doubling(path.size, [&](double distance) {
      path.shift(distance, bytes);
      path.reduce(reductions * bytes);
    });
    path.copy(bytes);
  }
};

}  // namespace

constinit const Algorithm exscan_recursive_doubling{
    .name = "recursive_doubling",
    .collective = CollectiveKind::exscan,
    .supports = supports_prefix,
    .build = ExscanRecursiveDoubling::build,
    .scratch_size = ExscanRecursiveDoubling::scratch_size,
    .cost = ExscanRecursiveDoubling::cost,
};

}  // namespace hmc::collectives::schedule
