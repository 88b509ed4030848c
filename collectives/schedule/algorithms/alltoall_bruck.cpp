// Alltoall by Bruck: the block that has to go d ranks further takes the hops of d's bits; those with bit k travel
// together in round k. ceil(log2 N) messages of half of all blocks, for short ones.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {

void alltoall_bruck(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const auto place_of = [&](int other) { return static_cast<std::uint64_t>((other + 2 * b.size) % b.size) * bytes; };
  // Where the block lies that still has to go so far as its bits from this round's on say.
  std::vector<Place> where;
  for (int distance = 0; distance < b.size; ++distance) where.push_back(input(place_of(rank + distance)));
  std::uint32_t round = 0;
  for (int hop = 1; hop < b.size; hop *= 2, ++round) {
    std::vector<int> going;
    for (int distance = hop; distance < b.size; ++distance)
      if ((distance & hop) != 0) going.push_back(distance);
    const std::uint64_t all = going.size() * bytes;
    const Place packed = scratch(b.take_scratch(all)), arrived = scratch(b.take_scratch(all));
    for (std::size_t i = 0; i < going.size(); ++i)
      b.copy(where[static_cast<std::size_t>(going[i])], packed + i * bytes, bytes);
    b.send(packed, (rank + hop) % b.size, arrived.offset, all, round);
    b.receive((rank - hop + b.size) % b.size, round, all);
    for (std::size_t i = 0; i < going.size(); ++i) where[static_cast<std::size_t>(going[i])] = arrived + i * bytes;
  }
  // In place, the own block is where it belongs, and all others were packed before.
  for (int distance = 0; distance < b.size; ++distance)
    b.copy(where[static_cast<std::size_t>(distance)], output(place_of(rank - distance)), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
