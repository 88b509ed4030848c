// The contents of a collective's buffers before and after the call: MPI's definitions as intervals.
#pragma once

#include <vector>

#include "collectives/schedule/kinds.hpp"
#include "verify/cases.hpp"
#include "verify/storage.hpp"

namespace hmc::verify {

/// A run of values that starts at offset `begin` of a buffer.
struct Content {
  std::uint64_t begin = 0;
  ValueRun piece;
};
using Contents = std::vector<Content>;

/// The contents of the input of `rank`.
Contents input_of(const Case& subject, int rank, Values& values);
/// The required contents of the output of `rank`. Other bytes must be unchanged.
Contents required_output_of(const Case& subject, int rank, Values& values);
/// Whether this rank's buffers overlap, and the offset of the smaller one in the larger.
struct BufferOverlap {
  bool overlaps = false;
  std::uint64_t input_at = 0;   ///< in the shared memory
  std::uint64_t output_at = 0;  ///< in the shared memory
};
BufferOverlap buffer_overlap_of(const Case& subject, int rank);

}  // namespace hmc::verify
