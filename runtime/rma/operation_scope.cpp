#include "runtime/rma/operation_scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace hmc::rma {

namespace {

/// A rank of this node: read from the node page, without the control plane.
base::RankState state_on_node(const Fabric& fabric, int rank) {
  return base::read_state(fabric.waiter.page().activity(fabric.peer(rank).local_index));
}

void append(std::string& text, const std::string& clause) {
  if (!text.empty()) text += "; ";
  text += clause;
}

}  // namespace

std::string what_ranks_are_in(const Fabric& fabric, std::span<const int> world_ranks, const char* word) {
  constexpr std::size_t most = 16;
  std::vector<base::RankState> states;
  std::vector<int> remote;
  for (const int rank : world_ranks) {
    if (rank == fabric.rank) continue;
    if (fabric.peer(rank).local_index >= 0)
      states.push_back(state_on_node(fabric, rank));
    else
      remote.push_back(rank);
  }
  // The control plane carries few states, so that a timeout on thousands of ranks doesn't load it.
  if (!remote.empty() && remote.size() <= most)
    for (base::RankState& each : fabric.exchange->states(remote)) states.push_back(std::move(each));
  std::sort(states.begin(), states.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, states.size()); ++i) append(text, base::text_of(states[i], word));
  if (states.size() > most) append(text, fmt::format("and {} more", states.size() - most));
  return text;
}

std::string text_of_long_wait(const Fabric& fabric, const base::WaitNote& note, std::chrono::nanoseconds waited) {
  std::string text =
      fmt::format("{} has waited for {:.3g} s", name_of(note.activity), std::chrono::duration<double>(waited).count());
  if (note.peer >= 0 && note.peer != fabric.rank) fmt::format_to(std::back_inserter(text), " for rank {}", note.peer);
  return text;
}

namespace {

/// Rethrows with the name of the user's call. For a timeout it adds the current call of the missing rank.
[[noreturn]] void throw_for(const Fabric& fabric, const base::Exchange& exchange, const Error& error) {
  ErrorDetail detail = error.detail();
  detail.operation = fabric.operation.name();
  // Errors of a team's own exchange already contain it.
  if (&exchange == fabric.exchange.get() && detail.code == Code::timeout && detail.peer >= 0) {
    const std::string others = what_ranks_are_in(fabric, std::span(&detail.peer, 1), "rank");
    if (!others.empty()) detail.message += "; " + others;
  }
  throw Error(std::move(detail));
}

}  // namespace

std::vector<base::Bytes> allgather_for(const Fabric& fabric, base::Exchange& exchange, base::ByteView mine,
                                       base::Deadline deadline) {
  const base::ActivityScope posted(fabric.waiter.page().activity(fabric.waiter.local_index()), {base::Activity::setup});
  try {
    return exchange.allgather(mine, deadline);
  } catch (const Error& error) {
    throw_for(fabric, exchange, error);
  }
}

void barrier_for(const Fabric& fabric, base::Exchange& exchange, base::Deadline deadline, base::Activity activity) {
  const base::ActivityScope posted(fabric.waiter.page().activity(fabric.waiter.local_index()), {activity});
  try {
    exchange.barrier(deadline);
  } catch (const Error& error) {
    throw_for(fabric, exchange, error);
  }
}

std::exception_ptr barrier_before_close(const Fabric& fabric, base::Exchange& exchange, std::exception_ptr unheard) {
  const bool is_world = &exchange == fabric.over_world.get();
  if (!is_world || !exchange.has_failed()) {
    try {
      barrier_for(fabric, exchange, fabric.deadline(), base::Activity::closing);
      return unheard;
    } catch (const Error&) {
      if (!is_world || !exchange.failed_before()) throw;
      unheard = std::current_exception();
    }
  }
  close_step(unheard, [&] { barrier_for(fabric, *fabric.exchange, fabric.deadline(), base::Activity::closing); });
  return unheard;
}

}  // namespace hmc::rma
