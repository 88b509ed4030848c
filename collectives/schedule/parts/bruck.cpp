#include "collectives/schedule/parts/bruck.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Bytes of `count` consecutive blocks (modulo size) from block `first` on.
std::uint64_t bytes_from(const Blocks& blocks, int first, int count) {
  const int size = blocks.size();
  if (first + count <= size) return blocks.prefix_bytes(first + count) - blocks.prefix_bytes(first);
  return blocks.total() - blocks.prefix_bytes(first) + blocks.prefix_bytes(first + count - size);
}

}  // namespace

Operand allgather_bruck_in(GroupBuilder& x, Operand from, const Blocks& blocks) {
  const int size = x.group.size, me = x.group.me;
  x.b.copy(from, x.local(0), blocks.bytes(me));
  std::uint32_t round = 0;
  for (int distance = 1; distance < size; distance *= 2, ++round) {
    const int count = std::min(distance, size - distance);
    const int before = (me - distance + size) % size, after = (me + distance) % size;
    x.send(x.local(0), before, bytes_from(blocks, before, distance), bytes_from(blocks, me, count), round);
    x.receive(after, round, bytes_from(blocks, after, count));
  }
  return x.local(0);
}

}  // namespace hmc::collectives::schedule
