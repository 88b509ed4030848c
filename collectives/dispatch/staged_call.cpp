#include "collectives/dispatch/staged_call.hpp"

#include <new>

namespace hmc::collectives {

using schedule::Collective;

namespace {

rma::Output output_of(const OpenTeam& team, const CollectiveArgs& args) {
  const Collective kind = args.call.collective;
  if (kind == Collective::broadcast && team.rank() == args.call.root) return rma::Output::unchanged;
  if (kind == Collective::exscan && team.rank() == 0) return rma::Output::unchanged;
  return args.call.irregular() ? rma::Output::parts : rma::Output::whole;  // gaps between the blocks
}

template <typename Work> void or_tell_all(const OpenTeam& team, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    team.state.schedules().fail(
        base::Status::failure(error.detail().code, "a rank couldn't stage its buffer", team.core.fabric().rank));
    throw;
  }
}

}  // namespace

CallBuffers buffers_of(const OpenTeam& team, const CollectiveArgs& args) {
  const schedule::Shape shape{team.size(), 1};
  return {args.input, schedule::input_bytes(shape, args.call, team.rank()), args.output,
          schedule::output_bytes(shape, args.call, team.rank()), output_of(team, args)};
}

Copies make_room(const OpenTeam& team, const char* operation, const CallBuffers& buffers) {
  const rma::Fabric& fabric = team.core.fabric();
  try {
    return std::make_unique<rma::HostCopies>(fabric, operation, buffers.in, buffers.in_bytes, buffers.out,
                                             buffers.out_bytes, buffers.output);
  } catch (const std::bad_alloc&) {
    rma::throw_status(fabric, base::Status::failure(Code::out_of_memory, "no memory to stage a device's buffer"),
                      {operation});
  }
}

void take(const OpenTeam& team, const char* operation, const rma::HostCopies& copies) {
  or_tell_all(team, [&] { rma::require(team.core.fabric(), copies.take(), {operation}); });
}

Copies stage(const OpenTeam& team, const char* operation, const CallBuffers& buffers) {
  Copies copies;
  or_tell_all(team, [&] { copies = make_room(team, operation, buffers); });
  take(team, operation, *copies);
  return copies;
}

void finish(const OpenTeam& team, const char* operation, const rma::HostCopies& copies) {
  rma::require(team.core.fabric(), copies.finish(), {operation});
}

}  // namespace hmc::collectives
