// allgather: all ranks' blocks, in rank order, on all ranks.
#pragma once

#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

struct AllgatherCall {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t bytes = 0;  ///< of one rank
  Signature signature() const noexcept { return Signature::make(Kind::allgather, bytes); }
  std::byte* block(int rank) const noexcept {
    return static_cast<std::byte*>(out) + static_cast<std::size_t>(rank) * bytes;
  }
};

base::Status allgather_direct(DirectTeam& team, const AllgatherCall& call) noexcept;

}  // namespace hmc::collectives
