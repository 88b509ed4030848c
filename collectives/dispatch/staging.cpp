#include "collectives/dispatch/staging.hpp"

#include <new>

#include "collectives/schedule/kinds.hpp"

namespace hmc::collectives {

namespace {

device::Output output_of(const TeamObject& team, const CollectiveArgs& args) {
  const CollectiveKind kind = args.call.collective;
  if (kind == CollectiveKind::broadcast && team.rank() == args.call.root) return device::Output::unchanged;
  if (contributions(kind, team.rank(), team.size()) == 0) return device::Output::unchanged;
  return args.call.irregular() ? device::Output::parts : device::Output::whole;  // gaps between the blocks
}

}  // namespace

Copies replace_buffers(const TeamObject& team, CollectiveArgs& args) {
  const schedule::Shape shape{team.size(), 1};
  try {
    auto copies = std::make_unique<device::HostCopies>(
        team.fabric(), args.operation, args.input, schedule::input_bytes(shape, args.call, team.rank()), args.output,
        schedule::output_bytes(shape, args.call, team.rank()), output_of(team, args));
    args.input = copies->in();
    args.output = copies->out();
    return copies;
  } catch (const std::bad_alloc&) {
    rma::throw_status(team.fabric(), base::Status::failure(Code::out_of_memory, "no memory to stage a device's buffer"),
                      {args.operation});
  }
}

void take(TeamObject& team, const device::HostCopies& copies, const char* operation) {
  or_fail_all(team, [&] { rma::require(team.fabric(), copies.take(), {operation}); });
}

}  // namespace hmc::collectives
