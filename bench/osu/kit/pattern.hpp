// Patterns that are cheap to write and to check, and that reveal a lost, misplaced or stale piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <hmc/types.hpp>
#include <vector>

namespace bench {

/// A sequence of elements with a prime period, shifted in every iteration. So a block at another power-of-two offset,
/// or of the last iteration, is detected. Written and compared at the speed of memory.
class Pattern {
 public:
  /// `one_period` holds `period` elements of `element` bytes.
  Pattern(std::size_t element, const std::vector<std::byte>& one_period);
  /// Bytes that depend on `seed`, for example a rank.
  static Pattern bytes(std::uint64_t seed);

  void write(void* to, std::size_t bytes, int iteration) const;
  bool matches(const void* data, std::size_t bytes, int iteration) const;

  static constexpr std::size_t period = 1021;

 private:
  const std::byte* start(int iteration) const;

  std::size_t element_;
  std::vector<std::byte> twice_;  // two periods, so that a period may start at any offset
};

/// Each rank's contribution to a reduction: small integers, so that the result is exact in every type.
Pattern contribution(hmc::Op op, hmc::DType type, int rank, int ranks);
/// The result of the reduction over all ranks.
Pattern reduction(hmc::Op op, hmc::DType type, int ranks);
/// The result over the first `count` ranks, at least one; for avg, their sum.
Pattern prefix(hmc::Op op, hmc::DType type, int count, int ranks);

}  // namespace bench
