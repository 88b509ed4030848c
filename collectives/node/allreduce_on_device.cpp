// Large, in windows over device memory: each rank's device reduces its slice from all inputs into all outputs.
//
// Only one rank's kernel reads and writes element i of any buffer, and it reads all inputs first.
#include "collectives/node/allreduce.hpp"
#include "collectives/node/on_device.hpp"

namespace hmc::collectives {

using base::Status;

Status allreduce_on_device(DirectTeam& team, const ReduceCall& call, Op op) {
  if (call.bytes() <= slot_bytes) return Status::in_progress();
  DeviceReduction by(team, call, op, {call.in, call.bytes(), call.out, call.bytes()});
  if (!by) return Status::in_progress();
  if (const Status status = by.meet(call.signature); !status.ok()) return status;
  if (!by.outputs_share_a_window()) return Status::in_progress();
  const DeviceReduction::Slice slice = by.my_slice(call.count);
  for (int rank = 0; rank < team.size(); ++rank) {
    team.ins[static_cast<std::size_t>(rank)] = by.in(rank, slice.first * call.element);
    team.outs[static_cast<std::size_t>(rank)] = by.out(rank, slice.first * call.element);
  }
  const auto ranks = static_cast<std::size_t>(team.size());
  return by.run(ranks, ranks, slice.count);
}

}  // namespace hmc::collectives
