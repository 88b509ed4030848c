#include "collectives/node/gather_push.hpp"

#include <cstring>

namespace hmc::collectives {

using base::Status;

Placement show_output(DirectTeam& team, const Parts& parts, const void* output, std::size_t bytes) noexcept {
  // In a v-form only the root has the displacements of the blocks. It publishes them as a table in its slot.
  const std::size_t* const begins = parts.out_begins();
  const std::size_t table = begins == nullptr ? 0 : static_cast<std::size_t>(team.size()) * sizeof *begins;
  if (table > slot_bytes) return {};
  const Placement placement = team.place(output, bytes);
  if (placement && table > 0) std::memcpy(team.slot(team.rank()), begins, table);
  return placement;
}

Status gather_push(DirectTeam& team, const Parts& parts, const std::byte* block, int root,
                   const Placement& output) noexcept {
  std::byte* const there = team.reach(root, output);
  if (there == nullptr)
    return team.fail(Status::failure(Code::closed, "the root's window isn't open here", team.world(root)));
  const auto me = static_cast<std::size_t>(team.rank());
  std::size_t begin = parts.out_begin(me);
  if (parts.irregular()) std::memcpy(&begin, team.slot(root) + me * sizeof begin, sizeof begin);
  if (const std::size_t bytes = parts.in_bytes(me); bytes > 0) std::memcpy(there + begin, block, bytes);
  team.publish(Phase::finished, team.tag(0));
  return {};
}

Status await_brought(DirectTeam& team) noexcept {
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;
  return team.wait_phases(Phase::finished, team.tag(0));
}

}  // namespace hmc::collectives
