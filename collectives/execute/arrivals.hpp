// Arrivals: which bytes of a schedule may come straight into the caller's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// Others put into scratch, since they don't know the caller's buffers. What a rank does no more with than copy it to
/// its output may as well land there, if the wire can (window::land): that saves the copy.
struct Arrival {
  std::size_t step = 0;  ///< the copy
  std::uint64_t scratch = 0;
  std::uint64_t output = 0;
  std::uint64_t bytes = 0;
};

/// The copies of long runs from scratch to output whose bytes nobody but the copy reads, whose scratch no step of this
/// rank writes, and whose output no other step touches: then it doesn't matter when they get there. In the steps'
/// order.
void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals);

}  // namespace hmc::collectives
