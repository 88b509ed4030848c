#include "collectives/mismatch/failure_error.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

namespace {

/// The word for ranks in error texts. In a team other than the world it says that the numbers are world ranks.
const char* rank_word(const rma::TeamCore& team) { return team.is_world() ? "rank" : "world rank"; }

std::vector<int> on_this_node(const rma::TeamCore& team) {
  std::vector<int> world_ranks;
  for (const int member : team.local_ranks()) world_ranks.push_back(team.world_rank(member));
  return world_ranks;
}

std::string text_of(const PeerReport& report, bool one) {
  switch (report.part) {
    case PeerReport::Part::called: return "called " + report.signature.text();
    case PeerReport::Part::absent: return one ? "hasn't come so far" : "haven't come so far";
    case PeerReport::Part::otherwise:
      return one ? "called something else and is in no call now" : "called something else and are in no call now";
    case PeerReport::Part::unlisted: return "called one of these or something else";
    case PeerReport::Part::silent: break;
  }
  return one ? "hasn't said what it called" : "haven't said what they called";
}

/// "rank 1 called barrier; ranks 0 and 2 called allreduce(...)": each call once, with its ranks.
std::string calls_of_ranks(const rma::TeamCore& team, const TeamFailure& failure) {
  const int size = team.size();
  std::string text;
  std::vector<bool> told(static_cast<std::size_t>(size));
  std::vector<PeerReport> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(failure.peer_report_of(rank));
  for (int rank = 0; rank < size; ++rank) {
    if (told[static_cast<std::size_t>(rank)]) continue;
    const PeerReport& report = all[static_cast<std::size_t>(rank)];
    std::vector<int> ranks;
    for (int other = rank; other < size; ++other) {
      if (!(all[static_cast<std::size_t>(other)] == report)) continue;
      told[static_cast<std::size_t>(other)] = true;
      ranks.push_back(team.world_rank(other));
    }
    constexpr std::size_t most = 16;
    const std::string more = ranks.size() > most ? fmt::format(" and {} more", ranks.size() - most) : "";
    if (ranks.size() > most) ranks.resize(most);
    fmt::format_to(std::back_inserter(text), "{}{}{} {}{} {}", text.empty() ? "" : ", ", rank_word(team),
                   ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), more,
                   text_of(report, ranks.size() == 1 && more.empty()));
  }
  return text;
}

}  // namespace

void throw_failure_error(const rma::TeamCore& team, const TeamFailure& failure, const base::Status& status,
                         const char* operation, std::size_t bytes) {
  const rma::Fabric& fabric = team.fabric();
  if (status.code != Code::mismatch && status.code != Code::timeout)
    rma::throw_status(fabric, status, {operation, status.peer, 0, bytes, bytes > 0});
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = operation;
  detail.rank = fabric.rank;
  detail.peer = status.peer;
  if (status.code == Code::mismatch) {
    detail.message = calls_of_ranks(team, failure);
    detail.hint = "every rank of a team calls the same collectives in the same order, with matching arguments";
  } else {
    detail.message = fmt::format("{} {} didn't come before the deadline of {:.3g} s; {}", rank_word(team), status.peer,
                                 std::chrono::duration<double>(fabric.timeout).count(),
                                 rma::what_ranks_are_in(fabric, on_this_node(team), rank_word(team)));
    detail.hint = "HMC_TIMEOUT_S sets the deadline";
  }
  throw Error(std::move(detail));
}

}  // namespace hmc::collectives
