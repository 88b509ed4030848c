// Parts of the deterministic algorithms: one kernel call folds each element over all ranks in rank order. So its bits
// depend only on the contributions and the team size, not on message size, segments or wires.
#pragma once

#include <functional>

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {

/// The contributions of all ranks, in rank order.
struct Contributions {
  Operand first;
  std::uint64_t stride;
};
/// Sends every other rank its part of the input, at begin(rank). Collects all contributions to this rank's part in
/// scratch.
Contributions exchange_contributions(Builder& b, const std::function<std::uint64_t(int)>& begin,
                                     const std::function<std::uint64_t(int)>& bytes_of);

/// Gathers the whole vectors of all ranks, in rank order: Bruck, then a copy to rank order.
Operand gather_vectors(Builder& b);
ScratchSize gathered_vectors_size(const Shape& shape, const Call& call);
/// The cost of gather_vectors and one fold.
void cost_of_gathered_fold(CriticalPath& path, const Call& call);

}  // namespace hmc::collectives::schedule
