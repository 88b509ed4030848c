// broadcast: the root's bytes on all ranks.
#pragma once

#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

struct BroadcastCall {
  void* data = nullptr;
  std::size_t bytes = 0;
  int root = 0;
  Signature signature() const noexcept { return Signature::make(Kind::broadcast, bytes, root); }
};

base::Status broadcast_direct(DirectTeam& team, const BroadcastCall& call) noexcept;

}  // namespace hmc::collectives
