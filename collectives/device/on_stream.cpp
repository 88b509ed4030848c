// Collectives in the order of device streams. If the devices support it, the streams synchronize with each other.
// Otherwise the progress thread runs the calls.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include "collectives/device/make.hpp"
#include "runtime/device/host_copies.hpp"

namespace hmc {

using collectives::CallsOnStreams;
using collectives::OpenTeam;

namespace {

CallsOnStreams& calls_of(const OpenTeam& team, const char* operation, const void* buffer) {
  if (team.state.streams != nullptr) return *team.state.streams;
  try {
    team.state.streams = collectives::make_by_words(team, operation, buffer);
  } catch (const Error& by_words) {
    if (by_words.code() != Code::unsupported) throw;  // the same on every rank
    try {
      team.state.streams = collectives::make_by_host(team, operation, buffer);
    } catch (const Error& by_host) {
      if (by_host.code() != Code::unsupported) throw;
      ErrorDetail detail = by_host.detail();
      detail.message =
          fmt::format("{}; and the streams can't wait for each other: {}", detail.message, by_words.detail().message);
      throw Error(std::move(detail));
    }
    if (team.rank() == 0)
      team.core.fabric().log.info("calls on streams go through the host: {}", by_words.detail().message);
  }
  return *team.state.streams;
}

}  // namespace

void Team::allreduce_on(void* stream, const void* in, void* out, std::size_t count, DType type, Op op) {
  const OpenTeam team(core_, "allreduce_on");
  // Check this rank's arguments before the first collective step.
  const collectives::CollectiveArgs args = collectives::allreduce_args(team.core, in, out, count, type, Reduction(op));
  const void* const on_device = rma::need_host_copies(in, in) ? in : out;
  calls_of(team, "allreduce_on", on_device).allreduce(stream, args);
}

void Team::barrier_on(void* stream, const void* buffer) {
  const OpenTeam team(core_, "barrier_on");
  calls_of(team, "barrier_on", buffer).barrier(stream, buffer);
}

}  // namespace hmc
