#include "bootstrap/tcp/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bootstrap/common.hpp"

namespace hmc::bootstrap {

RoundFailed StoreRounds::fail(std::uint64_t number, Code code, int peer, std::string text) {
  rounds_.erase(number);
  RoundFailed failed{RoundFailed::Scope::job, number, code, peer, std::move(text)};
  constexpr std::size_t most_remembered = 1024;
  if (failed_.size() >= most_remembered) failed_.erase(failed_.begin());
  failed_[number] = failed;
  return failed;
}

std::optional<RoundFailed> StoreRounds::impossible(std::uint64_t number, const Round& round) {
  if (left_count_ == 0) return std::nullopt;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (!left_[rank] || round.by_rank[rank]) continue;
    const int peer = static_cast<int>(rank);
    return fail(number, Code::closed, peer, fmt::format("rank {} has left the job", peer));
  }
  return std::nullopt;
}

StoreRounds::Outcome StoreRounds::contribute(Contribution contribution) {
  const std::uint64_t number = contribution.round;
  if (const auto failed = failed_.find(number); failed != failed_.end()) return failed->second;
  Round& round = rounds_.try_emplace(number, Round{contribution.kind, {}, 0, 0}).first->second;
  round.by_rank.resize(size_);
  for (Contribution::Entry& each : contribution.entries) {
    if (round.kind != contribution.kind) {
      return fail(number, Code::mismatch, each.rank,
                  mismatch_text(name_of(round.kind), name_of(contribution.kind), each.rank));
    }
    auto& place = round.by_rank[static_cast<std::size_t>(each.rank)];
    if (place) continue;
    round.bytes += each.bytes.size();
    place = std::move(each.bytes);
    ++round.arrived;
  }
  if (round.bytes > largest_round_bytes) {
    return fail(number, Code::invalid_argument, -1,
                fmt::format("the ranks' contributions have {} bytes, above the limit", round.bytes));
  }
  if (round.arrived < size_) {
    if (auto failed = impossible(number, round)) return *std::move(failed);
    return std::monostate{};
  }
  Result result{number, {}};
  if (round.kind == RoundKind::allgather) {
    for (auto& bytes : round.by_rank) result.by_rank.push_back(*std::move(bytes));
  }
  rounds_.erase(number);
  return result;
}

std::vector<RoundFailed> StoreRounds::leave(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (left_[index]) return {};
  left_[index] = true;
  ++left_count_;
  std::vector<RoundFailed> failures;
  for (auto next = rounds_.begin(); next != rounds_.end();) {
    const auto each = next++;  // fail() erases it
    if (auto failed = impossible(each->first, each->second)) failures.push_back(*std::move(failed));
  }
  return failures;
}

std::vector<std::int32_t> StoreRounds::missing(std::uint64_t number) const {
  std::vector<std::int32_t> ranks;
  const auto found = rounds_.find(number);
  if (found == rounds_.end()) return ranks;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (!found->second.by_rank[rank]) ranks.push_back(static_cast<std::int32_t>(rank));
  }
  return ranks;
}

std::vector<std::int32_t> StoreAgreements::missing(const Agreement& agreement) const {
  std::vector<std::int32_t> ranks;
  std::set<std::int32_t> members;
  bool some_gone = false;
  for (const RankProcess& each : agreement.members) {
    members.insert(each.rank);
    some_gone = some_gone || is_gone(each);
    if (!is_gone(each) && !agreement.voted.contains(each)) ranks.push_back(each.rank);
  }
  if (agreement.step != Ballot::Step::grow || some_gone) return ranks;
  for (std::int32_t rank = 0; rank < size(); ++rank)
    if (!members.contains(rank) && !at(rank).stands_by) ranks.push_back(rank);
  return ranks;
}

/// True if a rank without a replacement will never have one; `text` names the rank and the reason.
bool StoreAgreements::is_hopeless(const Agreement& agreement, const std::vector<std::int32_t>& missing,
                                  std::string& text) const {
  if (agreement.step != Ballot::Step::grow) return false;
  // First all members vote, so that all get the same decision, and a different call is a mismatch.
  for (const RankProcess& each : agreement.members)
    if (!agreement.voted.contains(each)) return false;
  for (const std::int32_t rank : missing) {
    const std::string& why = no_replacement_.empty() ? at(rank).no_replacement : no_replacement_;
    if (!has_ended(rank) || why.empty()) continue;
    text = fmt::format("no process will replace rank {}: {}", rank, why);
    return true;
  }
  return false;
}

std::vector<DecisionFor> StoreAgreements::vote(const Vote& vote) {
  used_ = true;
  if (is_gone(vote.voter)) return {};
  const Ballot& ballot = vote.ballot;
  if (ballot.step == Ballot::Step::stand_by) {
    change(vote.voter.rank, [](Rank& rank) {
      rank.stands_by = true;
      rank.is_member = false;  // it was one until its attempt failed
    });
    return decide_ready();
  }
  if (const auto late = failed_.find(ballot.number); late != failed_.end()) return {{late->second, vote.voter}};
  const auto [found, is_new] =
      open_.try_emplace(ballot.number, Agreement{ballot.step, ballot.members, {}, true, {}, {}, {}});
  Agreement& agreement = found->second;
  agreement.voted.insert(vote.voter);
  if (agreement.step != ballot.step || agreement.members != ballot.members) {
    agreement.ok = false;
    agreement.text = "the ranks called shrink() and grow() in different orders";
    agreement.code = Code::mismatch;
    return decide(found);
  }
  if (is_new && vote.timeout_ms != 0)
    agreement.deadline = base::Deadline::after(std::chrono::milliseconds(vote.timeout_ms));
  if (!ballot.ok && agreement.ok) {
    agreement.text = ballot.text;
    agreement.code = Code::error;
  }
  agreement.ok = agreement.ok && ballot.ok;
  return decide_ready();
}

std::vector<DecisionFor> StoreAgreements::end(int rank) {
  if (has_ended(rank)) return {};
  change(rank, [](Rank& each) {
    each.ended = true;
    each.stands_by = false;
  });
  return decide_ready();
}

std::vector<DecisionFor> StoreAgreements::leave(int rank) {
  change(rank, [](Rank& each) { each.left = true; });
  return decide_ready();
}

std::vector<DecisionFor> StoreAgreements::no_replacement(int rank, std::string text) {
  at(rank).no_replacement = std::move(text);
  return decide_ready();
}

void StoreAgreements::replace(int rank) {
  change(rank, [](Rank& each) { each = Rank{each.life + 1, false, false, false, false, {}}; });
}

std::vector<DecisionFor> StoreAgreements::decide_ready() {
  std::vector<DecisionFor> decisions;
  for (auto next = open_.begin(); next != open_.end();) {
    const auto each = next++;  // decide() erases it
    const std::vector<std::int32_t> waits_for = missing(each->second);
    std::string text;
    if (is_hopeless(each->second, waits_for, text)) {
      each->second.ok = false;
      each->second.text = text;
      each->second.code = Code::unavailable;
    } else if (!waits_for.empty()) {
      continue;
    }
    for (DecisionFor& one : decide(each)) decisions.push_back(std::move(one));
  }
  if (!has_no_member()) return decisions;
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    if (!std::exchange(at(rank).stands_by, false)) continue;
    const Decision refused{0, false, {}, {}, "all ranks that could call grow() have ended", Code::unavailable};
    decisions.push_back({refused, process(rank)});
  }
  return decisions;
}

std::vector<DecisionFor> StoreAgreements::expire() {
  std::vector<DecisionFor> decisions;
  for (auto next = open_.begin(); next != open_.end();) {
    const auto each = next++;
    if (!each->second.deadline || !each->second.deadline->expired()) continue;
    for (DecisionFor& one : decide(each)) decisions.push_back(std::move(one));
  }
  return decisions;
}

int StoreAgreements::left_ms() const noexcept {
  int least = -1;
  for (const auto& [number, agreement] : open_)
    if (agreement.deadline)
      least = least < 0 ? agreement.deadline->left_ms() : std::min(least, agreement.deadline->left_ms());
  return least;
}

std::vector<DecisionFor> StoreAgreements::decide(Open::iterator which) {
  const Agreement& agreement = which->second;
  Decision decision{which->first, agreement.ok, {}, missing(agreement), agreement.text, agreement.code};
  bool some_gone = false;
  for (const RankProcess& each : agreement.members) {
    some_gone = some_gone || is_gone(each);
    if (!is_gone(each) && agreement.voted.contains(each)) decision.members.push_back(each);
  }
  if (!decision.missing.empty() || (some_gone && agreement.step != Ballot::Step::shrink)) decision.agreed = false;
  const bool grows = agreement.step == Ballot::Step::grow && decision.agreed;
  if (grows) {
    decision.members.clear();
    for (std::int32_t rank = 0; rank < size(); ++rank) decision.members.push_back(process(rank));
  }
  if (!decision.missing.empty()) {  // decided without these ranks: they get the decision when they vote
    constexpr std::size_t most_remembered = 64;
    if (failed_.size() >= most_remembered) failed_.erase(failed_.begin());
    failed_[decision.number] = decision;
  }
  std::vector<DecisionFor> decisions;
  for (const RankProcess& each : agreement.voted)
    if (!is_gone(each)) decisions.push_back({decision, each});
  if (grows) {
    // A rank of the team can't stand by, so no recipient is listed twice.
    for (std::int32_t rank = 0; rank < size(); ++rank) {
      change(rank, [](Rank& each) { each.is_member = true; });
      if (std::exchange(at(rank).stands_by, false) && !agreement.voted.contains(process(rank)))
        decisions.push_back({decision, process(rank)});
    }
  }
  open_.erase(which);
  return decisions;
}

}  // namespace hmc::bootstrap
