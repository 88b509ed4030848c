#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Calls copy(packed offset, caller's offset, bytes) for each run that is contiguous in both orders.
template <typename Copy> void for_each_run(const Blocks& blocks, const Copy& copy) {
  std::uint64_t begin = 0, bytes = 0, offset = 0;
  for (int i = 0; i < blocks.size(); ++i) {
    const int rank = (blocks.first() + i) % blocks.size();
    if (blocks.bytes(rank) == 0) continue;
    const bool continues = bytes > 0 && offset + bytes == blocks.offset(rank);
    if (!continues) {
      if (bytes > 0) copy(begin, offset, bytes);
      begin = blocks.packed_offset(rank);
      offset = blocks.offset(rank);
      bytes = 0;
    }
    bytes += blocks.bytes(rank);
  }
  if (bytes > 0) copy(begin, offset, bytes);
}

}  // namespace

void unpack_blocks(Builder& b, const Blocks& blocks, Operand from, Operand to) {
  for_each_run(blocks, [&](std::uint64_t packed, std::uint64_t offset, std::uint64_t bytes) {
    b.copy(from + packed, to + offset, bytes);
  });
}

void pack_blocks(Builder& b, const Blocks& blocks, Operand from, Operand to) {
  for_each_run(blocks, [&](std::uint64_t packed, std::uint64_t offset, std::uint64_t bytes) {
    b.copy(from + offset, to + packed, bytes);
  });
}

}  // namespace hmc::collectives::schedule
