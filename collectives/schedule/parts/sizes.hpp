// Sizes, segments and rounds that several algorithms compute alike.
#pragma once

#include <algorithm>

#include "collectives/schedule/call.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

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
