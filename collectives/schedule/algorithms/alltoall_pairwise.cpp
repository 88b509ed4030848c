// Alltoall(v) by pairwise exchange: in round d each rank sends to the rank d after it and receives from the rank d
// before it. Each byte travels once.
//
// Messages arrive in a few receive buffers (cells) in rotation, so scratch doesn't grow with the team size. Before a
// cell is reused, its owner signals a credit to the next sender.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Default size of all cells together.
constexpr std::uint64_t default_cells_bytes = 4 << 20;

std::uint64_t cells_bytes(const Call& call) {
  return call.segment_bytes > 0 ? call.segment_bytes * alltoall_cells : default_cells_bytes;
}

class PairwiseSteps {
 public:
  explicit PairwiseSteps(Builder& builder)
      : b(builder),
        sent_(b.size, b.call),
        received_(b.size, b.call.receive_counts, b.call.receive_displacements, b.call.count, b.call.element_bytes),
        cell_(align_to_line((b.call.irregular() ? b.call.largest : b.call.count) * b.call.element_bytes)) {
    const std::uint64_t fit = cell_ > 0 ? cells_bytes(b.call) / cell_ : cells_bytes(b.call);
    cells_ = static_cast<int>(
        std::min<std::uint64_t>(std::max<std::uint64_t>(fit, 2), static_cast<std::uint64_t>(std::max(b.size - 1, 1))));
    cells_at_ = b.allocate_scratch(static_cast<std::uint64_t>(cells_) * cell_);
  }

  void build() {
    from_ = input();
    if (b.call.in_place) stage();
    b.copy(from_ + sent_.offset(b.rank), output(received_.offset(b.rank)), sent_.bytes(b.rank));
    for (int round = 1; round < b.size; ++round) exchange(round);
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
    for (int other = 0; other < b.size; ++other) end = std::max(end, sent_.offset(other) + sent_.bytes(other));
    from_ = scratch(b.allocate_scratch(end));
    for (int other = 0; other < b.size; ++other)
      b.copy(input(sent_.offset(other)), from_ + sent_.offset(other), sent_.bytes(other));
  }

  void exchange(int round) {
    const int to = after(round), from = before(round);
    const std::uint64_t out = sent_.bytes(to), in = received_.bytes(from);
    if (round > cells_) b.receive(to, credit_slot(round), out);
    b.send(from_ + sent_.offset(to), to, cell(round), out, data_slot(round));
    b.receive(from, data_slot(round), in);
    b.copy(scratch(cell(round)), output(received_.offset(from)), in);
    const int next = round + cells_;
    if (next < b.size && received_.bytes(before(next)) > 0) b.signal(before(next), credit_slot(next));
  }

  Builder& b;
  Blocks sent_, received_;
  std::uint64_t cell_;
  int cells_ = 1;
  std::uint64_t cells_at_ = 0;
  Operand from_;
};

struct AlltoallPairwise {
  static void build(Builder& b) { PairwiseSteps(b).build(); }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint64_t cell = align_to_line(vector_bytes(call));
    const std::uint64_t others = static_cast<std::uint64_t>(std::max(shape.size - 1, 1));
    const std::uint64_t cells = cell > 0 ? std::min(std::max<std::uint64_t>(cells_bytes(call) / cell, 2), others) : 0;
    const int credits = cells < others ? shape.size - 1 : 0;
    return {cells * cell + (call.in_place ? team_bytes(shape, call) : 0), slot_number(shape.size - 1 + credits)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    path.copy(cost_bytes(call));
    path.pairwise(cost_bytes(call));
    path.copy((path.size - 1) * cost_bytes(call));
  }
};

}  // namespace

constinit const Algorithm alltoall_pairwise{
    .name = "pairwise",
    .collective = CollectiveKind::alltoall,
    .deterministic = true,
    .tuned_by = {.segments = true},
    .build = AlltoallPairwise::build,
    .scratch_size = AlltoallPairwise::scratch_size,
    .cost = AlltoallPairwise::cost,
};

}  // namespace hmc::collectives::schedule
