// Small vectors: each rank publishes its input in its arrival line or slot, and computes the complete result itself.
#include <cstring>

#include "collectives/node/allreduce.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

Status allreduce_small(DirectTeam& team, const CollectiveArgs& args, bool in_line) noexcept {
  const std::size_t bytes = args.bytes();
  if (!in_line) std::memcpy(team.slot(team.rank()), args.input, bytes);
  team.arrive(args.input, in_line ? bytes : 0);
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;
  for (int rank = 0; rank < team.size(); ++rank)
    team.ins[static_cast<std::size_t>(rank)] = in_line ? team.payload(rank) : team.slot(rank);
  // Read this rank's contribution from the caller's buffer: it is in this core's caches, the line or slot isn't.
  team.ins[static_cast<std::size_t>(team.rank())] = args.input;
  void* const to = args.output;
  reduce(args.reducer, &to, 1, team.ins.data(), team.size(), args.call.count, team.scratch);
  return {};
}

}  // namespace

Status allreduce_direct(DirectTeam& team, const CollectiveArgs& args) {
  const std::size_t bytes = args.bytes();
  if (const Status status = team.begin(args.signature); !status.ok()) return status;
  if (bytes <= slot_bytes) return allreduce_small(team, args, bytes <= inline_bytes);
  return allreduce_sliced(team, args);
}

}  // namespace hmc::collectives
