// gather_push: gather of large blocks into a root's output that lies in a window. Each rank writes its own block there.
#pragma once

#include "collectives/node/direct_team.hpp"
#include "collectives/node/parts.hpp"

namespace hmc::collectives {

/// All ranks copy at the same time, one block each, and a rank returns after its copy; if the root copies all blocks,
/// all ranks wait for it.
///
/// Used only for an output in a window. After an error the root's private memory belongs to its caller at once, and a
/// write by another process can't be stopped. A window's memory may still be written to for a moment after an error, as
/// in an allreduce.
constexpr bool may_be_brought(const schedule::Call& call) noexcept {
  return call.collective == schedule::Collective::gather;
}
/// The root's output, to publish with its arrival. Empty if the root must copy the blocks itself.
Placement show_output(DirectTeam& team, const Parts& parts, const void* output, std::size_t bytes) noexcept;
/// Writes this rank's block into the root's output.
base::Status gather_push(DirectTeam& team, const Parts& parts, const std::byte* block, int root,
                         const Placement& output) noexcept;
/// On the root: waits until all blocks are there. Called after the root has stored its own block.
base::Status await_brought(DirectTeam& team) noexcept;

}  // namespace hmc::collectives
