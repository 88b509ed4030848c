// One round without data.
#include "collectives/barrier/barrier.hpp"

namespace hmc::collectives {

base::Status barrier_rounds(RoundTeam& team) noexcept {
  if (const base::Status status = team.begin(Signature::make(Kind::barrier, 0)); !status.ok()) return status;
  return team.round([](int) noexcept { return std::span<const std::byte>{}; });
}

}  // namespace hmc::collectives
