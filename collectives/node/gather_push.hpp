// gather_push: gather of large blocks into a window of the root. Each rank writes its own block into the root's output.
#pragma once

#include "collectives/node/direct_team.hpp"
#include "collectives/node/parts.hpp"

namespace hmc::collectives {

/// All ranks copy one block each, at the same time. A rank returns after its own copy. If the root copied all blocks,
/// all ranks would wait for the root.
///
/// Requires an output in a window. After an error the root's caller may reuse its private memory at once, but a write
/// by another process can't be stopped. In a window, peers may write for a short time after an error, as in allreduce.
constexpr bool may_be_brought(const schedule::Call& call) noexcept {
  return call.collective == schedule::Collective::gather;
}
/// Returns the location of the root's output, which the root publishes with its arrival. Returns an empty placement if
/// the root must copy the blocks itself.
Placement show_output(DirectTeam& team, const Parts& parts, const void* output, std::size_t bytes) noexcept;
/// Writes this rank's block into the root's output.
base::Status gather_push(DirectTeam& team, const Parts& parts, const std::byte* block, int root,
                         const Placement& output) noexcept;
/// Called on the root after it has stored its own block. Waits until all ranks have written their blocks.
base::Status await_brought(DirectTeam& team) noexcept;

}  // namespace hmc::collectives
