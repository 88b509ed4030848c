// Pairwise exchange: in round d each rank sends to the rank d after it and receives from the rank d before it. Each
// byte travels once.
//
// alltoall(v): messages arrive in a few cells in rotation, so scratch doesn't grow with the team. Before a cell is
// reused, its owner signals a credit to the next sender.
// reduce_scatter: every rank receives all contributions to its block and reduces one per round.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

class Alltoall {
 public:
  explicit Alltoall(Builder& builder)
      : b(builder),
        sent_(b.size, b.call),
        received_(b.size, b.call.receive_counts, b.call.receive_displacements, b.call.count, b.call.element_bytes),
        cell_(line_up((b.call.irregular() ? b.call.largest : b.call.count) * b.call.element_bytes)) {
    const std::uint64_t wanted = b.call.segment_bytes > 0 ? b.call.segment_bytes * 16 : alltoall_cells;
    const std::uint64_t fit = cell_ > 0 ? wanted / cell_ : wanted;
    cells_ = static_cast<int>(
        std::min<std::uint64_t>(std::max<std::uint64_t>(fit, 2), static_cast<std::uint64_t>(std::max(b.size - 1, 1))));
    cells_at_ = b.take_scratch(static_cast<std::uint64_t>(cells_) * cell_);
  }

  void build() {
    from_ = input();
    if (b.call.in_place) stage();
    b.copy(from_ + sent_.place(b.rank), output(received_.place(b.rank)), sent_.bytes(b.rank));
    for (int round = 1; round < b.size; ++round) exchange(round);
    b.finish();
  }

 private:
  int after(int distance) const { return (b.rank + distance) % b.size; }
  int before(int distance) const { return (b.rank - distance + b.size) % b.size; }
  std::uint32_t data_slot(int round) const { return static_cast<std::uint32_t>(round - 1); }
  std::uint32_t credit_slot(int round) const { return static_cast<std::uint32_t>(b.size - 1 + round - 1); }
  std::uint64_t cell(int round) const { return cells_at_ + static_cast<std::uint64_t>(round % cells_) * cell_; }

  /// In place, an output would overwrite input that isn't sent yet.
  void stage() {
    std::uint64_t end = 0;
    for (int other = 0; other < b.size; ++other) end = std::max(end, sent_.place(other) + sent_.bytes(other));
    from_ = scratch(b.take_scratch(end));
    for (int other = 0; other < b.size; ++other)
      b.copy(input(sent_.place(other)), from_ + sent_.place(other), sent_.bytes(other));
  }

  void exchange(int round) {
    const int to = after(round), from = before(round);
    const std::uint64_t out = sent_.bytes(to), in = received_.bytes(from);
    if (round > cells_) b.receive(to, credit_slot(round), out);
    b.send(from_ + sent_.place(to), to, cell(round), out, data_slot(round));
    b.receive(from, data_slot(round), in);
    b.copy(scratch(cell(round)), output(received_.place(from)), in);
    const int next = round + cells_;
    if (next < b.size && received_.bytes(before(next)) > 0) b.signal(before(next), credit_slot(next));
  }

  Builder& b;
  Blocks sent_, received_;
  std::uint64_t cell_;
  int cells_ = 1;
  std::uint64_t cells_at_ = 0;
  Place from_;
};

}  // namespace

void alltoall_pairwise(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Alltoall(b).build();
}

void reduce_scatter_pairwise(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Blocks blocks(b.size, call);
  const std::uint64_t bytes = blocks.bytes(rank), area = line_up(bytes);
  const auto others = static_cast<std::uint64_t>(b.size - 1);
  b.take_scratch(others * area);
  // In place, the output overlaps blocks that are still being sent.
  const Place sum = call.in_place && b.size > 1 ? scratch(b.take_scratch(bytes)) : output();
  b.copy(input(blocks.place(rank)), sum, bytes);
  for (int round = 1; round < b.size; ++round) {
    const int to = (rank + round) % b.size, from = (rank - round + b.size) % b.size;
    const auto slot = static_cast<std::uint32_t>(round - 1);
    b.send(input(blocks.place(to)), to, slot * line_up(blocks.bytes(to)), blocks.bytes(to), slot);
    b.receive(from, slot, bytes);
    b.reduce(scratch(slot * area), sum, bytes);
  }
  b.settle_in_place();
  b.copy(sum, output(), bytes);
  b.scale(output(), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
