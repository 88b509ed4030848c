// Bruck's allgather over a group.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {

/// A member holds consecutive blocks that begin with its own. In round k it receives 2^k more from the member 2^k after
/// it. ceil(log2 N) rounds for any N. Returns all blocks, in the order me, me + 1, ... (modulo size).
Operand allgather_bruck_in(GroupBuilder& x, Operand from, const Blocks& blocks);
/// `bytes`: of all blocks.
inline ScratchSize allgather_bruck_size(int size, std::uint64_t bytes) {
  return {align_to_line(bytes), slot_number(rounds_of(size))};
}
/// The rounds over the whole team, with blocks of `block` bytes.
inline void cost_of_allgather_bruck(CriticalPath& path, double block) {
  for_each_doubling(path.size,
                    [&](double distance) { path.shift(distance, std::min(distance, path.size - distance) * block); });
}

}  // namespace hmc::collectives::schedule
