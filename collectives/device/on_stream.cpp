// Collectives in the order of device streams. If the devices support it, the streams synchronize with each other.
// Otherwise the progress thread runs the calls.
//
// Calls on streams within a node: the streams wait for memory words that other ranks' streams write, without the host.
//
// A piece of an allreduce: copy the input to this rank's staging; the streams synchronize; this rank's device reduces
// its slice of all stagings into all stagings; the streams synchronize again; copy the staging to the output.
//
// Between the two synchronizations only rank i's kernel accesses slice i of any staging. At other times only the
// owner's copies access a staging. The copy of the next piece follows the second synchronization, so all kernels have
// finished their access to this rank's staging.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "collectives/args/check.hpp"
#include "collectives/device/by_host.hpp"
#include "runtime/device/host_copies.hpp"
#include "runtime/device/stream_group.hpp"

namespace hmc::collectives {

namespace {

using base::Status;
using device::StreamGroup;

constexpr std::size_t border_bytes = 4096;

class ByWords final : public CallsOnStreams {
 public:
  ByWords(TeamObject& team, const char* operation, const void* buffer)
      : team_(team), streams_(team, operation, buffer) {}

  void allreduce(void* stream, const CollectiveArgs& args) override {
    require(streams_.accepts(args.input), "allreduce_on");
    require(streams_.accepts(args.output), "allreduce_on");
    require(streams_.begin(stream, args.signature.word()), "allreduce_on");
    const std::size_t count = args.call.count, most = StreamGroup::staging_bytes / args.call.element_bytes;
    Status status;
    for (std::size_t first = 0; status.ok() && first < count; first += most)
      status = piece(args, first, std::min(most, count - first));
    require(streams_.end(status), "allreduce_on");
  }

  void barrier(void* stream, const void* buffer) override {
    require(streams_.accepts(buffer), "barrier_on");
    require(streams_.begin(stream, 0), "barrier_on");
    require(streams_.end(streams_.barrier(0)), "barrier_on");
  }

  void close() override { streams_.close(); }

 private:
  Status piece(const CollectiveArgs& args, std::size_t first, std::size_t count) {
    const std::size_t element = args.call.element_bytes;
    const auto* const in = static_cast<const std::byte*>(args.input) + first * element;
    auto* const out = static_cast<std::byte*>(args.output) + first * element;
    const auto ranks = static_cast<std::size_t>(team_.size()), border = border_bytes / element;
    const std::size_t length = ((count + ranks - 1) / ranks + border - 1) / border * border;
    const std::size_t begins = std::min(count, static_cast<std::size_t>(team_.rank()) * length);
    const std::size_t mine = std::min(length, count - begins);
    Status status = streams_.copy_input(in, count * element);
    if (status.ok()) status = streams_.barrier(0);
    if (status.ok() && mine > 0) status = streams_.reduce(begins, mine, args.call.type, args.call.op);
    if (status.ok()) status = streams_.barrier(1);
    return status.ok() ? streams_.give_out(out, count * element) : status;
  }

  void require(const Status& status, const char* operation) const { rma::require(team_.fabric(), status, {operation}); }

  rma::TeamCore& team_;
  StreamGroup streams_;
};

}  // namespace

}  // namespace hmc::collectives

namespace hmc {

using collectives::CallsOnStreams;
using collectives::TeamObject;

namespace {

CallsOnStreams& calls_of(TeamObject& team, const char* operation, const void* buffer) {
  if (team.streams != nullptr) return *team.streams;
  try {
    team.streams = std::make_unique<collectives::ByWords>(team, operation, buffer);
  } catch (const Error& by_words) {
    if (by_words.code() != Code::unsupported) throw;  // the same on every rank
    try {
      team.streams = collectives::make_by_host(team, operation, buffer);
    } catch (const Error& by_host) {
      if (by_host.code() != Code::unsupported) throw;
      ErrorDetail detail = by_host.detail();
      detail.message =
          fmt::format("{}; and the streams can't wait for each other: {}", detail.message, by_words.detail().message);
      throw Error(std::move(detail));
    }
    if (team.rank() == 0) team.fabric().log.info("calls on streams go through the host: {}", by_words.detail().message);
  }
  return *team.streams;
}

}  // namespace

void Team::run_on(void* stream, const Collective& call) {
  const bool is_barrier = call.kind == CollectiveKind::barrier;
  const char* const operation = is_barrier ? "barrier_on" : "allreduce_on";
  TeamObject& team = collectives::open(object_, operation);
  if (is_barrier) return calls_of(team, operation, call.in).barrier(stream, call.in);
  if (call.kind != CollectiveKind::allreduce || call.how.is_function)
    throw Error(Code::unsupported, "Team::run_on",
                fmt::format("{} on a stream: only allreduce with an Op and barrier", name_of(call.kind)));
  // Check this rank's arguments before the first collective step.
  const collectives::CollectiveArgs args = collectives::check(team, call, operation);
  const void* const on_device = device::need_host_copies(call.in, call.in) ? call.in : call.out;
  calls_of(team, operation, on_device).allreduce(stream, args);
}

}  // namespace hmc
