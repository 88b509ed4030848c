// Collectives in the order of devices' streams.
//
// A piece of an allreduce: the input goes to my staging; the streams meet; my device reduces its slice of all stagings
// into all stagings; the streams meet again; the result goes out. Slice i of any staging is touched by rank i's kernel
// alone between the two meetings, and by its owner's copies outside of them; the next piece's copy comes after the
// second meeting, at which all have done with my staging.
#include <hmc/team.hpp>

#include <algorithm>

#include "collectives/calls.hpp"
#include "runtime/window/device/host_copies.hpp"
#include "runtime/window/device/stream_group.hpp"

namespace hmc {

using base::Status;
using collectives::OpenTeam;
using window::StreamGroup;

namespace {

constexpr std::size_t border_bytes = 4096;

StreamGroup& streams_of(const OpenTeam& team, const char* operation, const void* buffer) {
  if (team.state.streams == nullptr) team.state.streams = std::make_unique<StreamGroup>(team.core, operation, buffer);
  return *team.state.streams;
}

Status piece(StreamGroup& streams, const OpenTeam& team, const collectives::ReduceCall& call, Op op, std::size_t first,
             std::size_t count) {
  const auto* const in = static_cast<const std::byte*>(call.in) + first * call.element;
  auto* const out = static_cast<std::byte*>(call.out) + first * call.element;
  const auto ranks = static_cast<std::size_t>(team.size()), border = border_bytes / call.element;
  const std::size_t length = ((count + ranks - 1) / ranks + border - 1) / border * border;
  const std::size_t begins = std::min(count, static_cast<std::size_t>(team.rank()) * length);
  const std::size_t mine = std::min(length, count - begins);
  Status status = streams.take_in(in, count * call.element);
  if (status.ok()) status = streams.meet(0);
  if (status.ok() && mine > 0) status = streams.reduce(begins, mine, call.type, op);
  if (status.ok()) status = streams.meet(1);
  return status.ok() ? streams.give_out(out, count * call.element) : status;
}

void require(const OpenTeam& team, const Status& status, const char* operation) {
  window::require(team.core.fabric(), status, {operation});
}

}  // namespace

void Team::allreduce_on(void* stream, const void* in, void* out, std::size_t count, DType type, Op op) {
  const OpenTeam team(core_, "allreduce_on");
  const collectives::ReduceCall call = collectives::allreduce_direct_call(in, out, count, type, Reduction(op));
  const void* const on_device = window::need_host_copies(in, in) ? in : out;
  StreamGroup& streams = streams_of(team, "allreduce_on", on_device);
  require(team, streams.accepts(in), "allreduce_on");
  require(team, streams.accepts(out), "allreduce_on");
  require(team, streams.begin(stream, call.signature.word()), "allreduce_on");
  const std::size_t most = StreamGroup::staging_bytes / call.element;
  Status status;
  for (std::size_t first = 0; status.ok() && first < count; first += most)
    status = piece(streams, team, call, op, first, std::min(most, count - first));
  require(team, streams.end(status), "allreduce_on");
}

void Team::barrier_on(void* stream, const void* buffer) {
  const OpenTeam team(core_, "barrier_on");
  StreamGroup& streams = streams_of(team, "barrier_on", buffer);
  require(team, streams.accepts(buffer), "barrier_on");
  require(team, streams.begin(stream, 0), "barrier_on");
  require(team, streams.end(streams.meet(0)), "barrier_on");
}

}  // namespace hmc
