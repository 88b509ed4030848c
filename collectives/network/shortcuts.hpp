// Shortcuts: copies from scratch to the caller's output that a schedule can skip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// Peers put into scratch, because they don't have the addresses of the caller's buffers. A range that this rank only
/// copies to its output and forwards can be received directly in the output, if the wire can (rma::receive_into),
/// and forwarded from there. That saves the copy.
struct Arrival {
  std::size_t step = 0;  ///< the first step that reads the range: the copy, or a put that forwards it
  std::uint64_t scratch = 0;
  std::uint64_t output = 0;
  std::uint64_t bytes = 0;
};

/// Finds copies of long ranges from scratch to output that can be received directly, in step order. Conditions, so that
/// the time of arrival doesn't matter:
/// - only the copy, and puts that forward the bytes, read the range;
/// - no step of this rank writes the scratch range;
/// - no other step accesses the output range.
void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals);

/// A sum that is only copied to the output can be computed there.
struct Result {
  std::size_t step = 0;  ///< the reduce
  std::size_t copy = 0;
  std::uint64_t output = 0;
};

/// Long ranges only, in step order. None in place, because the output holds the input of later steps.
void find_results(const schedule::Schedule& schedule, bool in_place, std::vector<Result>& results);

}  // namespace hmc::collectives
