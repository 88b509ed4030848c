// What a collective's buffers hold before and must hold after: MPI's words as intervals.
#pragma once

#include <vector>

#include "verify/case.hpp"
#include "verify/storage.hpp"

namespace hmc::verify {

/// Pieces that begin at `begin` of a buffer.
struct Content {
  std::uint64_t begin = 0;
  Piece piece;
};
using Contents = std::vector<Content>;

/// What the input of `rank` holds.
Contents input_of(const Case& subject, int rank, Values& values);
/// What the output of `rank` must hold; what isn't named must be as before.
Contents promised_to(const Case& subject, int rank, Values& values);
/// Whether this rank's buffers overlap, and where in the larger one the smaller begins.
struct Overlap {
  bool overlaps = false;
  std::uint64_t input_at = 0;   ///< of the shared memory
  std::uint64_t output_at = 0;  ///< of the shared memory
};
Overlap overlap_of(const Case& subject, int rank);

}  // namespace hmc::verify
