#include "runtime/rma/team_core.hpp"

namespace hmc::rma {

bool TeamCore::all_direct() const noexcept {
  for (int rank = 0; rank < size(); ++rank)
    if (!fabric_->paths[static_cast<std::size_t>(world_rank(rank))].direct) return false;
  return true;
}

std::vector<int> TeamCore::local_ranks() const {
  std::vector<int> ranks;
  for (const int world : fabric_->node_link->members())
    if (const int rank = rank_of(world); rank >= 0) ranks.push_back(rank);
  return ranks;
}

}  // namespace hmc::rma
