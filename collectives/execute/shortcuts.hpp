// Shortcuts: which copies of a schedule from scratch to the caller's output need not be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// Others put into scratch, since they don't know the caller's buffers. What a rank does no more with than copy it to
/// its output and hand it on may as well land there, if the wire can (window::receive_into), and be handed on from
/// there: that saves the copy.
struct Arrival {
  std::size_t step = 0;  ///< the first that reads it: the copy, or a put that hands it on
  std::uint64_t scratch = 0;
  std::uint64_t output = 0;
  std::uint64_t bytes = 0;
};

/// The copies of long runs from scratch to output whose bytes are read by the copy and by puts beside it alone, whose
/// scratch no step of this rank writes, and whose output no other step touches: then it doesn't matter when they get
/// there. In the steps' order.
void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals);

/// A sum that is only copied to the output may as well be made there.
struct Result {
  std::size_t step = 0;  ///< the reduce
  std::size_t copy = 0;
  std::uint64_t output = 0;
};

/// Of long runs, in the steps' order. None in place, where the output holds the input of later steps.
void find_results(const schedule::Schedule& schedule, bool in_place, std::vector<Result>& results);

}  // namespace hmc::collectives
