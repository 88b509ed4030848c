// Allreduce of long vectors by ranks that can read each other's scratch: each rank reduces its slice in its scratch,
// and the others get it from there. With two ranks the data crosses twice, as in the blocking call by load and store:
// the sum overwrites the contribution that has just been read.
//
// A slice is reduced in segments, all in the same scratch, so that data is read while it is in caches near the cores.
// Why a contribution may overwrite that of the segment before: its place was last read by the owner's reduction, whose
// signal the sender has received. The place of the sum is read by other ranks:
// - two ranks: the sender of the next contribution is the only reader, and has read the sum before it sends;
// - more ranks: the owner writes it, its own contribution first, when all next contributions have arrived. The others
//   send these after they have read the sum.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Two ranks don't copy their own contributions.
bool reduces_pair(int size, const Call& call) { return size == 2 && !call.deterministic && call.op != Op::avg; }

/// The segments of the longest slice; those of the others are shorter or empty. One of each rank fit in
/// Call::segment_bytes, in whole cache lines.
Segments segments_of(int size, const Call& call) {
  const std::uint64_t scratch = segment_size(call, std::uint64_t{512} << 10);
  const std::uint64_t place = scratch / static_cast<std::uint64_t>(std::max(size, 2)) / 64 * 64;
  return Segments(Slices(call.count, size, call.element_bytes).largest(),
                  place / call.element_bytes * call.element_bytes, call.element_bytes);
}

class SharedSlices {
 public:
  explicit SharedSlices(Builder& b)
      : b_(b), slices_(b.call.count, b.size, b.call.element_bytes), segments_(segments_of(b.size, b.call)) {}

  void build() {
    const bool pair = reduces_pair(b_.size, b_.call);
    stride_ = align_to_line(segments_.bytes(0));
    b_.allocate_scratch(pair ? stride_ : static_cast<std::uint64_t>(b_.size) * stride_);
    for (segment_ = 0; segment_ < segments_.count(); ++segment_) {
      pair ? reduce_pair() : fold_all();
      for_others([&](int other) {
        if (bytes(b_.rank) > 0) b_.signal(other, slot(b_.size + b_.rank));
      });
      for_others([&](int other) {
        b_.receive(other, slot(b_.size + other), bytes(other));
        b_.get(other, pair ? 0 : place(other), output(begin(other)), bytes(other));
      });
    }
  }

 private:
  std::uint64_t begin(int slice) const {
    return slices_.begin(slice) + std::min(segments_.begin(segment_), slices_.bytes(slice));
  }
  std::uint64_t bytes(int slice) const {
    const std::uint64_t all = slices_.bytes(slice), from = std::min(segments_.begin(segment_), all);
    return std::min(segments_.begin(segment_) + segments_.bytes(segment_), all) - from;
  }
  std::uint64_t place(int rank) const { return static_cast<std::uint64_t>(rank) * stride_; }
  std::uint32_t slot(int number) const {
    return segment_ * 2 * static_cast<std::uint32_t>(b_.size) + static_cast<std::uint32_t>(number);
  }
  /// Begins with different ranks, so that not all ranks access one at the same time.
  template <typename Use> void for_others(const Use& use) const {
    for (int i = 1; i < b_.size; ++i) use((b_.rank + i) % b_.size);
  }

  void reduce_pair() {
    const int other = 1 - b_.rank;
    const Operand mine = input(begin(b_.rank)), sum = scratch();
    b_.send(input(begin(other)), other, 0, bytes(other), slot(b_.rank));
    b_.receive(other, slot(other), bytes(b_.rank));
    b_.rank == 0 ? b_.reduce_before(mine, sum, bytes(0)) : b_.reduce(mine, sum, bytes(1));
    b_.copy(sum, output(begin(b_.rank)), bytes(b_.rank));
  }

  void fold_all() {
    const Operand sum = scratch(place(b_.rank));
    for_others([&](int other) { b_.send(input(begin(other)), other, place(b_.rank), bytes(other), slot(b_.rank)); });
    for_others([&](int other) { b_.receive(other, slot(other), bytes(b_.rank)); });
    b_.copy(input(begin(b_.rank)), sum, bytes(b_.rank));
    b_.fold(scratch(), stride_, b_.size, sum, bytes(b_.rank));
    b_.copy(sum, output(begin(b_.rank)), bytes(b_.rank));
  }

  Builder& b_;
  Slices slices_;
  Segments segments_;
  std::uint32_t segment_ = 0;
  std::uint64_t stride_ = 0;
};

struct AllreduceSharedSlices {
  static void build(Builder& b) { SharedSlices(b).build(); }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    const Segments segments = segments_of(shape.size, call);
    const std::uint64_t contribution = segments.count() > 0 ? align_to_line(segments.bytes(0)) : 0;
    const auto places = static_cast<std::uint64_t>(reduces_pair(shape.size, call) ? 1 : shape.size);
    return {places * contribution, segments.count() * slot_number(2 * shape.size)};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double segments = std::max<double>(segments_of(path.size, call).count(), 1);
    const double slice = cost_bytes(call) / path.size / segments;
    path.repeat(segments, [&](CriticalPath& segment) {
      if (!reduces_pair(path.size, call)) segment.copy(slice);
      segment.all_to_all(slice);
      // One kernel call stores the sum in scratch and in the output.
      segment.reduce(reduces_pair(path.size, call) ? slice : path.size * slice);
      segment.all_to_all(0);
      segment.get((path.size - 1) * slice);
    });
  }
};

}  // namespace

constinit const Algorithm allreduce_shared_slices{
    .name = "shared_slices",
    .collective = CollectiveKind::allreduce,
    .deterministic = true,
    .gets = true,
    .tuned_by = {.segments = true},
    .build = AllreduceSharedSlices::build,
    .scratch_size = AllreduceSharedSlices::scratch_size,
    .cost = AllreduceSharedSlices::cost,
};

}  // namespace hmc::collectives::schedule
