// Scan and exscan by recursive doubling: in round k a rank sends the sum of the last 2^k ranks, itself included, to the
// rank 2^k after it. ceil(log2 N) rounds. Order is kept, because a received sum covers the ranks just before those
// summed so far.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {

void scan_doubling(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes, area = line_up(bytes);
  b.take_scratch(static_cast<std::uint64_t>(rounds_of(b.size)) * area);
  Place sum = input();
  std::uint32_t round = 0;
  for (int distance = 1; distance < b.size; distance *= 2, ++round) {
    if (rank + distance < b.size) b.send(sum, rank + distance, round * area, bytes, round);
    if (rank < distance) continue;
    b.receive(rank - distance, round, bytes);
    b.reduce(sum, scratch(round * area), bytes);
    sum = scratch(round * area);
  }
  b.settle_in_place();
  b.copy(sum, output(), bytes);
  b.finish();
}

void exscan_doubling(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes, area = line_up(bytes);
  const auto rounds = static_cast<std::uint64_t>(rounds_of(b.size));
  b.take_scratch((rounds + 1) * area);
  // `sum` includes the own contribution and is for other ranks; the output excludes it. In place, the output overwrites
  // the input, so `sum` starts as a copy.
  Place sum = input();
  if (call.in_place) {
    sum = scratch(rounds * area);
    b.copy(input(), sum, bytes);
  }
  std::uint32_t round = 0;
  for (int distance = 1; distance < b.size; distance *= 2, ++round) {
    if (rank + distance < b.size) b.send(sum, rank + distance, round * area, bytes, round);
    if (rank < distance) continue;
    const Place arrived = scratch(round * area);
    b.receive(rank - distance, round, bytes);
    if (distance == 1)
      b.copy(arrived, output(), bytes);
    else
      b.reduce_before(arrived, output(), bytes);
    if (rank + distance * 2 >= b.size) continue;  // no rank needs it
    b.reduce(sum, arrived, bytes);
    sum = arrived;
  }
  b.finish();
}

}  // namespace hmc::collectives::schedule
