// Alltoall by Bruck: a block for the rank at distance d takes a hop of 2^k in round k if bit k of d is set. The blocks
// of a round travel in one message. ceil(log2 N) messages of about half of all blocks, for short blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {

void alltoall_bruck(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const auto place_of = [&](int other) { return static_cast<std::uint64_t>((other + 2 * b.size) % b.size) * bytes; };
  // where[d]: the place of the block with distance d on this rank. Only the bits of d from this round on remain to be
  // travelled.
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
  // In place, the own block needs no copy, and all other blocks were packed before.
  for (int distance = 0; distance < b.size; ++distance)
    b.copy(where[static_cast<std::size_t>(distance)], output(place_of(rank - distance)), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
