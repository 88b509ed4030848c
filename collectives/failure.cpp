#include "collectives/failure.hpp"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace hmc::collectives {

namespace {

/// How errors of this team speak of ranks: of another team than the world by their world ranks, and say so.
const char* rank_word(const window::TeamCore& team) { return team.is_world() ? "rank" : "world rank"; }

/// "rank 3 is computing since 2.1 s; ..." for the team's ranks on this node, whose lines we can read.
std::string what_ranks_are_in(const window::TeamCore& team) {
  const window::Fabric& fabric = team.fabric();
  std::string text;
  const std::int64_t now = base::now_ns();
  for (const int member : team.local_ranks()) {
    const int rank = team.world_rank(member);
    const int index = fabric.local_index[static_cast<std::size_t>(rank)];
    if (index < 0 || rank == fabric.rank) continue;
    const base::ActivityLine& line = fabric.waiter.page().activity(index);
    // Relaxed: a hint for people.
    const auto activity = static_cast<base::Activity>(line.activity.load(std::memory_order_relaxed));
    const std::int64_t since = line.since_ns.load(std::memory_order_relaxed);
    fmt::format_to(std::back_inserter(text), "{}{} {} is in {}", text.empty() ? "" : "; ", rank_word(team), rank,
                   name_of(activity));
    if (since > 0) fmt::format_to(std::back_inserter(text), " since {:.1f} s", static_cast<double>(now - since) * 1e-9);
  }
  return text;
}

/// "rank 1 called barrier; ranks 0 and 2 called allreduce(...)": each thing once, by who called it.
std::string who_called_what(const window::TeamCore& team, const std::function<Signature(int rank)>& signature_of) {
  const int size = team.size();
  std::string text;
  std::vector<bool> told(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    if (told[static_cast<std::size_t>(rank)]) continue;
    const Signature called = signature_of(rank);
    std::vector<int> ranks;
    for (int other = rank; other < size; ++other) {
      if (!(signature_of(other) == called)) continue;
      told[static_cast<std::size_t>(other)] = true;
      ranks.push_back(team.world_rank(other));
    }
    constexpr std::size_t most = 16;
    const std::string more = ranks.size() > most ? fmt::format(" and {} more", ranks.size() - most) : "";
    if (ranks.size() > most) ranks.resize(most);
    fmt::format_to(std::back_inserter(text), "{}{}{} {}{} {}", text.empty() ? "" : ", ", rank_word(team),
                   ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), more,
                   called.kind() == Kind::none ? (ranks.size() == 1 ? "hasn't come so far" : "haven't come so far")
                                               : "called " + called.text());
  }
  return text;
}

using Text = std::function<std::string()>;

[[noreturn]] void throw_it(const window::TeamCore& team, const base::Status& status, const char* operation,
                           std::size_t bytes, const Text& mismatch) {
  const window::Fabric& fabric = team.fabric();
  if (status.code != Code::mismatch && status.code != Code::timeout)
    window::throw_status(fabric, status, {operation, status.peer, 0, bytes, bytes > 0});
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = operation;
  detail.rank = fabric.rank;
  detail.peer = status.peer;
  if (status.code == Code::mismatch) {
    detail.message = mismatch();
    detail.hint = "every rank of a team calls the same collectives in the same order, with matching arguments";
  } else {
    detail.message = fmt::format("{} {} didn't come before the deadline of {:.3g} s; {}", rank_word(team), status.peer,
                                 std::chrono::duration<double>(fabric.timeout).count(), what_ranks_are_in(team));
    detail.hint = "HMC_TIMEOUT_S sets the deadline";
  }
  throw Error(std::move(detail));
}

}  // namespace

void throw_failure(const window::TeamCore& core, ScheduleTeam& team, const base::Status& status, const char* operation,
                   std::size_t bytes) {
  throw_it(core, team.failure().ok() ? status : team.explain(), operation, bytes,
           [&] { return who_called_what(core, [&](int rank) { return team.signature_of(rank); }); });
}

}  // namespace hmc::collectives
