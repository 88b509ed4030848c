#include "collectives/select/area_limits.hpp"

#include <algorithm>

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;
using schedule::Shape;

namespace {

constexpr std::uint64_t kib = 1024;

}  // namespace

/// Scratch: about 4 MiB in all areas for a small team, less per rank for a large one. On one node areas are smaller:
/// pieces should fit into a core's cache. Slots: enough for algorithms with segments and for those with a message per
/// rank.
AreaLimits area_limits(int size, bool one_node) noexcept {
  const auto ranks = static_cast<std::uint64_t>(size);
  return {std::clamp<std::uint64_t>(8192 * kib / ranks / kib * kib, 64 * kib, (one_node ? 64 : 512) * kib),
          (1024 + 4 * static_cast<std::uint32_t>(size) + 7) / 8 * 8};
}

bool fits(const Algorithm& algorithm, const Shape& shape, const Call& call, std::uint64_t count,
          const AreaLimits& limits) {
  Call largest = call;
  largest.count = count;
  largest.in_place = call.collective != schedule::Collective::alltoall;  // Operation stages an alltoall in place
  const schedule::ScratchSize scratch_size = algorithm.scratch_size(shape, largest);
  return scratch_size.scratch <= limits.scratch_bytes && scratch_size.slots <= limits.slots;
}

std::uint64_t largest_piece(const Algorithm& algorithm, const Shape& shape, const Call& call,
                            const AreaLimits& limits) {
  // Tries 4, 3, 2, 1.5, 1, 3/4 ... of the area, in whole cache lines from 64 bytes on. Some algorithms keep less than
  // the whole message in scratch, others several times as much.
  for (std::uint64_t bytes = 4 * limits.scratch_bytes; bytes >= call.element_bytes; bytes /= 2) {
    for (const std::uint64_t candidate : {bytes, bytes / 4 * 3}) {
      const std::uint64_t elements = std::max<std::uint64_t>(
          candidate >= 64 ? candidate / 64 * 64 / call.element_bytes : candidate / call.element_bytes, 1);
      if (fits(algorithm, shape, call, elements, limits)) return elements;
    }
  }
  return 0;
}

}  // namespace hmc::collectives
