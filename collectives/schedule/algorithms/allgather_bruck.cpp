// Allgather by Bruck: a member holds consecutive blocks that begin with its own. In round k it receives 2^k more from
// the member 2^k after it. ceil(log2 N) rounds for any N. The last step copies the blocks to their places.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Bytes of `many` consecutive blocks (modulo size) from block `first` on.
std::uint64_t bytes_from(const Blocks& blocks, int first, int many) {
  const int size = blocks.size();
  if (first + many <= size) return blocks.before(first + many) - blocks.before(first);
  return blocks.total() - blocks.before(first) + blocks.before(first + many - size);
}

}  // namespace

ScratchSize allgather_needs(int size, std::uint64_t bytes) {
  return {line_up(bytes), static_cast<std::uint32_t>(rounds_of(size))};
}

Place allgather_part(Exchange& x, Place from, const Blocks& blocks) {
  const int size = x.group.size, me = x.group.me;
  x.b.copy(from, x.mine(0), blocks.bytes(me));
  std::uint32_t round = 0;
  for (int distance = 1; distance < size; distance *= 2, ++round) {
    const int many = std::min(distance, size - distance);
    const int before = (me - distance + size) % size, after = (me + distance) % size;
    x.send(x.mine(0), before, bytes_from(blocks, before, distance), bytes_from(blocks, me, many), round);
    x.receive(after, round, bytes_from(blocks, after, many));
  }
  return x.mine(0);
}

void allgather_bruck(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  const Group group = whole_team(b, b.take_scratch(blocks.total()));
  Exchange x(b, group);
  unrotate(b, Blocks(b.size, call, rank), allgather_part(x, input(), blocks), output());
  b.finish();
}

}  // namespace hmc::collectives::schedule
