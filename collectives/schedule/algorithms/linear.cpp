// Gather and scatter with direct messages to and from the root. Each byte travels once; for long and irregular blocks.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/blocks.hpp"
#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

void gather_linear(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call, call.root);
  const auto slot_of = [](int other) { return static_cast<std::uint32_t>(other); };
  // The root's own block is the first in packed order and needs no scratch.
  const std::uint64_t own = blocks.bytes(call.root);
  if (rank != call.root) {
    b.send(input(), call.root, blocks.packed(rank) - own, blocks.bytes(rank), slot_of(rank));
    b.finish();
    return;
  }
  b.take_scratch(blocks.total() - own);
  b.copy(input(), output(blocks.place(rank)), own);
  for (int i = 1; i < b.size; ++i) {
    const int other = (rank + i) % b.size;
    b.receive(other, slot_of(other), blocks.bytes(other));
    b.copy(scratch(blocks.packed(other) - own), output(blocks.place(other)), blocks.bytes(other));
  }
  b.finish();
}

void scatter_linear(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  if (rank == call.root) {
    for (int i = 1; i < b.size; ++i) {
      const int other = (rank + i) % b.size;
      b.send(input(blocks.place(other)), other, 0, blocks.bytes(other), 0);
    }
    b.copy(input(blocks.place(rank)), output(), blocks.bytes(rank));
  } else {
    const Place arrived = scratch(b.take_scratch(blocks.bytes(rank)));
    b.receive(call.root, 0, blocks.bytes(rank));
    b.copy(arrived, output(), blocks.bytes(rank));
  }
  b.finish();
}

}  // namespace hmc::collectives::schedule
