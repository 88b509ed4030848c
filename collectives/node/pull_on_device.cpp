// reduce, reduce_scatter, scan and exscan of large buffers in windows over device memory.
//
// A reduce is divided like an allreduce: each device reduces its slice into the root's output, which it reaches if that
// lies in the inputs' window. Else the root's device reduces all. In the other collectives each device computes its own
// rank's output.
//
// Why no kernel overwrites what another reads: an output doesn't overlap its rank's input, hence not what the others
// read. Only a reduce may be in place, at its root: there one kernel reads and writes element i, and reads first.
#include <cstddef>

#include "collectives/node/on_device.hpp"
#include "collectives/node/parts.hpp"
#include "collectives/node/pull.hpp"
#include "collectives/node/ring.hpp"

namespace hmc::collectives {

using base::Status;
using schedule::Collective;

namespace {

/// This rank's share: the elements of the first `inputs` ranks, from byte `from` of each input.
struct Share {
  std::size_t inputs;
  std::size_t from = 0;
  std::size_t count = 0;
  std::byte* to = nullptr;
};

Share share_of(const DirectTeam& team, const DeviceReduction& by, const CollectiveArgs& args, const Roles& roles,
               const Parts& parts) {
  const schedule::Call& call = args.call;
  const auto ranks = static_cast<std::size_t>(team.size()), me = static_cast<std::size_t>(team.rank());
  if (call.collective == Collective::reduce) {
    const Placement result = by.shown_by(call.root).out;
    if (result.device_window == by.shown_by(call.root).in.device_window) {
      const DeviceReduction::Slice slice = by.my_slice(call.count);
      const std::size_t from = slice.first * call.element_bytes;
      return {ranks, from, slice.count, by.out_among_inputs(call.root, from)};
    }
  }
  if (!roles.has_result()) return {ranks};
  const std::size_t count = parts.out_bytes(me) / call.element_bytes;
  if (count == 0) return {ranks};
  const std::size_t inputs = call.collective == Collective::scan     ? me + 1
                             : call.collective == Collective::exscan ? me
                                                                     : ranks;
  return {inputs, parts.in_begin(me), count, by.out(team.rank(), 0)};
}

bool overlap(const DeviceReduction::Buffers& buffers) noexcept {
  const auto in = reinterpret_cast<std::uintptr_t>(buffers.in), out = reinterpret_cast<std::uintptr_t>(buffers.out);
  return buffers.out_bytes > 0 && in < out + buffers.out_bytes && out < in + buffers.in_bytes;
}

}  // namespace

Status pull_on_device(DirectTeam& team, const CollectiveArgs& args, bool& has_arrived) {
  const schedule::Call& call = args.call;
  if (!schedule::reduces(call.collective)) return Status::in_progress();
  const Roles roles{call.collective, team.rank(), team.size(), call.root};
  const Parts parts(team, args);
  if (parts.block() <= slot_bytes / parts_of(team, call.collective)) return Status::in_progress();
  const schedule::Shape shape{team.size(), 1};
  const DeviceReduction::Buffers buffers{args.input, schedule::input_bytes(shape, call, team.rank()), args.output,
                                         roles.has_result() ? schedule::output_bytes(shape, call, team.rank()) : 0};
  const bool may_overlap = call.collective == Collective::reduce && call.in_place;
  if (!may_overlap && overlap(buffers)) return Status::in_progress();
  DeviceReduction by(team, args.reduction, call.op, buffers);
  if (!by) return Status::in_progress();
  const Status met = by.meet(args.signature);
  has_arrived = is_for_host(met);
  if (!met.ok()) return met;
  const Share share = share_of(team, by, args, roles, parts);
  for (std::size_t rank = 0; rank < share.inputs; ++rank) team.ins[rank] = by.in(static_cast<int>(rank), share.from);
  team.outs[0] = share.to;
  return by.run(share.inputs, 1, share.count);
}

}  // namespace hmc::collectives
