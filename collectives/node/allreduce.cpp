// Small: each rank publishes its whole input, in its arrival line or slot, and computes the whole result itself.
#include <cstring>

#include "collectives/node/allreduce.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

Status small(DirectTeam& team, const ReduceCall& call, bool in_line) noexcept {
  const std::size_t bytes = call.bytes();
  if (!in_line) std::memcpy(team.slot(team.rank()), call.in, bytes);
  team.arrive(call.in, in_line ? bytes : 0);
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;
  for (int rank = 0; rank < team.size(); ++rank)
    team.ins[static_cast<std::size_t>(rank)] = in_line ? team.payload(rank) : team.slot(rank);
  // The caller's buffer is in this core's caches; the peers' reads have taken the line or slot out of them.
  team.ins[static_cast<std::size_t>(team.rank())] = call.in;
  reduce(call, &call.out, 1, team.ins.data(), team.size(), call.count, team.scratch);
  return {};
}

}  // namespace

Status allreduce_direct(DirectTeam& team, const ReduceCall& call) {
  const std::size_t bytes = call.bytes();
  if (const Status status = team.begin(call.signature); !status.ok()) return status;
  if (bytes <= slot_bytes) return small(team, call, bytes <= inline_bytes);
  const Status status = allreduce_sliced(team, call);
  if (!is_for_host(status)) [[likely]]
    return status;
  if (const Status again = team.begin(call.signature); !again.ok()) return again;
  return allreduce_sliced(team, call);
}

}  // namespace hmc::collectives
