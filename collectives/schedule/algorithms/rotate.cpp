// Copies blocks between packed order and the caller's order, with one copy per contiguous run.
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Calls copy(packed offset, caller's offset, bytes) for each run that is contiguous in both orders.
template <typename Copy> void for_each_run(const Blocks& blocks, const Copy& copy) {
  std::uint64_t begin = 0, bytes = 0, place = 0;
  for (int i = 0; i < blocks.size(); ++i) {
    const int rank = (blocks.first() + i) % blocks.size();
    if (blocks.bytes(rank) == 0) continue;
    const bool goes_on = bytes > 0 && place + bytes == blocks.place(rank);
    if (!goes_on) {
      if (bytes > 0) copy(begin, place, bytes);
      begin = blocks.packed(rank);
      place = blocks.place(rank);
      bytes = 0;
    }
    bytes += blocks.bytes(rank);
  }
  if (bytes > 0) copy(begin, place, bytes);
}

}  // namespace

void unrotate(Builder& b, const Blocks& blocks, Place from, Place to) {
  for_each_run(blocks, [&](std::uint64_t packed, std::uint64_t place, std::uint64_t bytes) {
    b.copy(from + packed, to + place, bytes);
  });
}

void rotate(Builder& b, const Blocks& blocks, Place from, Place to) {
  for_each_run(blocks, [&](std::uint64_t packed, std::uint64_t place, std::uint64_t bytes) {
    b.copy(from + place, to + packed, bytes);
  });
}

}  // namespace hmc::collectives::schedule
