// Blocks, Slices, Segments: the byte offsets at which the blocks, slices and segments of a vector begin. Sizes and
// rounds that several algorithms compute alike.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// One block per rank, of equal size or of a size per rank (v-forms). `offset` is a block's offset in the caller's
/// buffer. `packed_offset` is its offset when the blocks are contiguous in the order first, first + 1, ... (modulo
/// size).
class Blocks {
 public:
  using Counts = std::span<const std::uint64_t>;

  Blocks(int size, const Call& call, int first = 0)
      : Blocks(size, call.counts, call.displacements, call.count, call.element_bytes, first) {}
  Blocks(int size, Counts counts, Counts displacements, std::uint64_t count, std::uint64_t element, int first = 0)
      : size_(size), first_(first), element_(element), count_(count), counts_(counts), displacements_(displacements) {
    if (counts.empty()) return;
    before_.reserve(static_cast<std::size_t>(size) + 1);
    before_.push_back(0);
    for (int i = 0; i < size; ++i) before_.push_back(before_.back() + counts[index((first + i) % size)]);
    if (!displacements.empty() || first == 0) return;
    natural_.reserve(static_cast<std::size_t>(size));
    std::uint64_t at = 0;
    for (int i = 0; i < size; ++i) {
      natural_.push_back(at);
      at += counts[index(i)];
    }
  }

  int size() const { return size_; }
  int first() const { return first_; }
  std::uint64_t bytes(int rank) const { return (counts_.empty() ? count_ : counts_[index(rank)]) * element_; }
  std::uint64_t offset(int rank) const {
    if (counts_.empty()) return static_cast<std::uint64_t>(rank) * count_ * element_;
    if (!displacements_.empty()) return displacements_[index(rank)] * element_;
    return (natural_.empty() ? before_ : natural_)[index(rank)] * element_;
  }
  std::uint64_t packed_offset(int rank) const { return prefix_bytes((rank - first_ + size_) % size_); }
  /// Bytes of `many` consecutive blocks that begin with rank `first`.
  std::uint64_t prefix_bytes(int many) const {
    return (counts_.empty() ? static_cast<std::uint64_t>(many) * count_ : before_[index(many)]) * element_;
  }
  std::uint64_t total() const { return prefix_bytes(size_); }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  int size_, first_;
  std::uint64_t element_, count_;
  Counts counts_, displacements_;
  std::vector<std::uint64_t> before_, natural_;
};

/// A vector split into parts that differ by at most one element.
class Slices {
 public:
  Slices(std::uint64_t count, int parts, std::uint64_t element)
      : each_(count / static_cast<std::uint64_t>(parts)),
        more_(count % static_cast<std::uint64_t>(parts)),
        element_(element) {}

  /// Offset of part `part`; begin(parts) is the end of the vector.
  std::uint64_t begin(int part) const {
    const auto p = static_cast<std::uint64_t>(part);
    return (p * each_ + std::min(p, more_)) * element_;
  }
  std::uint64_t bytes(int part) const { return begin(part + 1) - begin(part); }
  /// Bytes of the parts [first, end).
  std::uint64_t bytes(int first, int end) const { return begin(end) - begin(first); }
  std::uint64_t largest() const { return (each_ + (more_ > 0 ? 1 : 0)) * element_; }

 private:
  std::uint64_t each_, more_, element_;
};

/// Limit of the segments of one message, since each segment needs a slot at the receiver.
inline constexpr std::uint64_t max_segments = 1024;

/// Segments of a pipeline. A segment holds whole elements; there are at most `most` segments.
class Segments {
 public:
  Segments(std::uint64_t bytes, std::uint64_t wanted, std::uint64_t element, std::uint64_t most = max_segments)
      : bytes_(bytes) {
    const std::uint64_t least = (bytes + most - 1) / most;
    size_ = std::max<std::uint64_t>(std::max(wanted, least), 1);
    size_ = (size_ + element - 1) / element * element;
    many_ = static_cast<std::uint32_t>((bytes + size_ - 1) / size_);
  }
  std::uint32_t count() const { return many_; }
  std::uint64_t begin(std::uint32_t i) const { return std::min(i * size_, bytes_); }
  std::uint64_t bytes(std::uint32_t i) const { return begin(i + 1) - begin(i); }

 private:
  std::uint64_t bytes_, size_;
  std::uint32_t many_;
};

/// Copies blocks from packed order to their offsets in the caller's buffer, with one copy per contiguous run.
void unpack_blocks(Builder& b, const Blocks& blocks, Operand from, Operand to);
/// The inverse of unpack_blocks.
void pack_blocks(Builder& b, const Blocks& blocks, Operand from, Operand to);

/// Bytes of `call.count` elements: of the vector, or of the largest block.
inline std::uint64_t vector_bytes(const Call& call) { return call.count * call.element_bytes; }
/// Bytes of one such block per rank.
inline std::uint64_t team_bytes(const Shape& shape, const Call& call) {
  return static_cast<std::uint64_t>(shape.size) * vector_bytes(call);
}
/// vector_bytes for the cost model.
inline double cost_bytes(const Call& call) {
  return static_cast<double>(call.count) * static_cast<double>(call.element_bytes);
}
inline std::uint64_t segment_size(const Call& call, std::uint64_t otherwise) {
  return call.segment_bytes > 0 ? call.segment_bytes : otherwise;
}
inline std::uint32_t slot_number(int number) { return static_cast<std::uint32_t>(std::max(number, 0)); }

/// The largest number of segments of a block of up to `bytes`.
inline std::uint32_t segment_bound(std::uint64_t bytes, std::uint64_t wanted, std::uint64_t element) {
  const std::uint64_t whole = (std::max<std::uint64_t>(wanted, 1) + element - 1) / element * element;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((bytes + whole - 1) / whole, max_segments));
}
/// The number of segments in the cost model.
inline double cost_segments(double bytes, std::uint64_t segment) {
  return std::clamp(bytes / static_cast<double>(segment), 1.0, static_cast<double>(max_segments));
}

/// Rounds of an algorithm that doubles its distance: the smallest k with 2^k >= size.
constexpr int rounds_of(int size) {
  int rounds = 0;
  while ((std::int64_t{1} << rounds) < size) ++rounds;
  return rounds;
}
/// The largest power of `base` that is at most `size`.
inline int power_within(int size, int base) {
  int power = 1;
  while (power <= size / base) power *= base;
  return power;
}
/// Calls round(2^k) for all 2^k below the limit, in increasing order.
template <typename Round> void for_each_doubling(double limit, const Round& round) {
  for (double distance = 1; distance < limit; distance *= 2) round(distance);
}
/// The same calls in decreasing order.
template <typename Round> void for_each_halving(double limit, const Round& round) {
  double distance = 1;
  while (distance * 2 < limit) distance *= 2;
  for (; distance >= 1 && limit > 1; distance /= 2) round(distance);
}

}  // namespace hmc::collectives::schedule
