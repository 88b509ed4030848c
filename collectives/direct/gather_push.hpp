// gather_push: a gather's large blocks, where the root's output lies in a window: each rank writes its own there.
#pragma once

#include "collectives/direct/direct_team.hpp"
#include "collectives/direct/parts.hpp"

namespace hmc::collectives {

/// All ranks copy at the same time, each one block, and who has brought its own leaves; where the root takes all, all
/// wait for it. Into a private output nobody writes: a root that has left with an error has its memory back at once,
/// and what another process still writes there can't be stopped. A window is known to be written to by others, and may
/// be for a moment after an error, as in an allreduce.
constexpr bool may_be_brought(const schedule::Call& call) noexcept {
  return call.collective == schedule::Collective::gather;
}
/// The root's output, as it shows it when it arrives; nothing where it has to take the blocks itself.
Placement show_output(DirectTeam& team, const Parts& parts, const void* output, std::size_t bytes) noexcept;
/// This rank's block, to where the root shows its output.
base::Status gather_push(DirectTeam& team, const Parts& parts, const std::byte* block, int root,
                         const Placement& output) noexcept;
/// The root, when its own block is there.
base::Status await_brought(DirectTeam& team) noexcept;

}  // namespace hmc::collectives
