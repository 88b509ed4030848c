#include "collectives/failure.hpp"

#include <fmt/format.h>

#include <iterator>

namespace hmc::collectives {

namespace {

/// "rank 3 is computing since 2.1 s; ..." for the ranks of this node, whose lines we can read.
std::string what_ranks_are_in(const window::Fabric& fabric) {
  std::string text;
  const std::int64_t now = base::now_ns();
  for (int rank = 0; rank < fabric.size; ++rank) {
    const int index = fabric.local_index[static_cast<std::size_t>(rank)];
    if (index < 0 || rank == fabric.rank) continue;
    const base::ActivityLine& line = fabric.waiter.page().activity(index);
    // Relaxed: a hint for people.
    const auto activity = static_cast<base::Activity>(line.activity.load(std::memory_order_relaxed));
    const std::int64_t since = line.since_ns.load(std::memory_order_relaxed);
    fmt::format_to(std::back_inserter(text), "{}rank {} is in {}", text.empty() ? "" : "; ", rank, name_of(activity));
    if (since > 0) fmt::format_to(std::back_inserter(text), " since {:.1f} s", static_cast<double>(now - since) * 1e-9);
  }
  return text;
}

}  // namespace

void throw_failure(const window::TeamCore& core, const State& state, const base::Status& status, const char* operation,
                   std::size_t bytes) {
  const window::Fabric& fabric = core.fabric();
  if (status.code != Code::mismatch && status.code != Code::timeout)
    window::throw_status(fabric, status, {operation, status.peer, 0, bytes, bytes > 0});
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = operation;
  detail.rank = fabric.rank;
  detail.peer = status.peer;
  if (status.code == Code::mismatch) {
    detail.message =
        fmt::format("rank {} called {}, rank {} called {}", fabric.rank, state.signature_of(fabric.rank).text(),
                    status.peer, state.signature_of(status.peer).text());
    detail.hint = "every rank of a team calls the same collectives in the same order, with matching arguments";
  } else {
    detail.message = fmt::format("rank {} didn't come before the deadline of {:.3g} s; {}", status.peer,
                                 std::chrono::duration<double>(fabric.timeout).count(), what_ranks_are_in(fabric));
    detail.hint = "HMC_TIMEOUT_S sets the deadline";
  }
  throw Error(std::move(detail));
}

}  // namespace hmc::collectives
