// Shortcuts: copies from scratch to the caller's output that a schedule can skip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// Peers put into scratch, because they don't have the addresses of the caller's buffers. If this rank only copies a
/// range to its output and forwards it, the range can be received directly in the output and forwarded from there. This
/// saves the copy. Requires support of the wire (rma::receive_into).
struct Arrival {
  std::size_t step = 0;  ///< the first step that reads the range: the copy, or a put that forwards it
  std::uint64_t scratch = 0;
  std::uint64_t output = 0;
  std::uint64_t bytes = 0;
};

/// Finds the long ranges that can be received directly in the output, in step order. They can arrive at any time, under
/// these conditions:
/// - only the copy, and puts that forward the bytes, read the range;
/// - no step of this rank writes the scratch range;
/// - no other step accesses the output range.
void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals);

/// A sum in scratch that is only copied to the output. It can be computed in the output.
struct Result {
  std::size_t step = 0;  ///< the reduce
  std::size_t copy = 0;
  std::uint64_t output = 0;
};

/// Finds long ranges only, in step order. Finds none for in-place calls, because the output holds the input of later
/// steps.
void find_results(const schedule::Schedule& schedule, bool in_place, std::vector<Result>& results);

}  // namespace hmc::collectives
