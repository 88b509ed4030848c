// Allreduce by recursive multiplying over a group: in round j the members whose numbers differ only in digit j (base
// `radix`) exchange their sums. Radix 2 is recursive doubling. log_radix N rounds of the whole vector.
//
// Any group size: see Clusters. Order is kept, because a round combines neighbouring ranges of members. The received
// vector becomes the new sum. So no buffer in flight is written, and no round needs a flush.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {

/// Returns the result, not yet scaled. Puts from `from` may be in flight at the end. Writes only scratch.
Operand allreduce_multiplying_in(GroupBuilder& x, Operand from, std::uint64_t bytes, int radix);
ScratchSize allreduce_multiplying_size(int size, std::uint64_t bytes, int radix);
/// Over the whole team.
void cost_of_allreduce_multiplying(CriticalPath& path, double bytes, int radix);

}  // namespace hmc::collectives::schedule
