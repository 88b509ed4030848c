// Scan by recursive doubling: in round k a rank sends the sum of the last 2^k ranks, itself included, to the rank 2^k
// after it. ceil(log2 N) rounds. Order is kept, because a received sum covers the ranks just before those summed so
// far.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct ScanRecursiveDoubling {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call), area = align_to_line(bytes);
    b.allocate_scratch(static_cast<std::uint64_t>(rounds_of(b.size)) * area);
    Operand sum = input();
    std::uint32_t round = 0;
    for (int distance = 1; distance < b.size; distance *= 2, ++round) {
      if (b.rank + distance < b.size) b.send(sum, b.rank + distance, round * area, bytes, round);
      if (b.rank < distance) continue;
      b.receive(b.rank - distance, round, bytes);
      b.reduce(sum, scratch(round * area), bytes);
      sum = scratch(round * area);
    }
    b.flush_local_in_place();
    b.copy(sum, output(), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint32_t rounds = slot_number(rounds_of(shape.size));
    return {rounds * align_to_line(vector_bytes(call)), rounds};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double bytes = cost_bytes(call);
    for_each_doubling(path.size, [&](double distance) {
      path.shift(distance, bytes);
      path.reduce(bytes);
    });
    path.copy(bytes);
  }
};

}  // namespace

constinit const Algorithm scan_recursive_doubling{
    .name = "recursive_doubling",
    .collective = CollectiveKind::scan,
    .supports = supports_prefix,
    .build = ScanRecursiveDoubling::build,
    .scratch_size = ScanRecursiveDoubling::scratch_size,
    .cost = ScanRecursiveDoubling::cost,
};

}  // namespace hmc::collectives::schedule
