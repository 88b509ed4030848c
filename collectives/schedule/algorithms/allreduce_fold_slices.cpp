// Deterministic allreduce for long vectors: each rank receives all contributions to its slice, folds them in rank
// order, and sends the result to all others.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/parts/fold.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AllreduceFoldSlices {
  static void build(Builder& b) {
    const Slices slices(b.call.count, b.size, b.call.element_bytes);
    const Contributions contributions = exchange_contributions(
        b, [&](int slice) { return slices.begin(slice); }, [&](int slice) { return slices.bytes(slice); });
    b.fold(contributions.first, contributions.stride, b.size, output(slices.begin(b.rank)), slices.bytes(b.rank));
    allgather(b, slices);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const std::uint64_t slice = Slices(call.count, shape.size, call.element_bytes).largest();
    return {static_cast<std::uint64_t>(shape.size) * align_to_line(slice) + vector_bytes(call),
            slot_number(2 * shape.size)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double slice = cost_bytes(call) / path.size;
    path.copy(slice);
    path.all_to_all(slice);
    path.reduce(cost_bytes(call));
    path.all_to_all(slice);
    path.copy((path.size - 1) * slice);
  }

 private:
  /// Each rank sends its reduced slice to all others.
  static void allgather(Builder& b, const Slices& slices) {
    const auto size = static_cast<std::uint32_t>(b.size);
    // The area begins at the same offset on all ranks: after the contributions to the largest slice.
    const std::uint64_t area = size * align_to_line(slices.largest());
    b.reserve_scratch(area + vector_bytes(b.call));
    for (int i = 1; i < b.size; ++i) {
      const int to = (b.rank + i) % b.size;
      b.send(output(slices.begin(b.rank)), to, area + slices.begin(b.rank), slices.bytes(b.rank),
             size + static_cast<std::uint32_t>(b.rank));
    }
    b.flush_local_in_place();
    for (int i = 1; i < b.size; ++i) {
      const int from = (b.rank - i + b.size) % b.size;
      b.receive(from, size + static_cast<std::uint32_t>(from), slices.bytes(from));
      b.copy(scratch(area + slices.begin(from)), output(slices.begin(from)), slices.bytes(from));
    }
  }
};

}  // namespace

constinit const Algorithm allreduce_fold_slices{
    .name = "fold_slices",
    .collective = CollectiveKind::allreduce,
    .deterministic = true,
    .build = AllreduceFoldSlices::build,
    .scratch_size = AllreduceFoldSlices::scratch_size,
    .cost = AllreduceFoldSlices::cost,
};

}  // namespace hmc::collectives::schedule
