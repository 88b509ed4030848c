// Long waits: detects ranks that called different collectives before the deadline. A rank in a long wait sends a
// question to the awaited rank.
//
// Why one question is enough: follow the chain from a waiting rank to the awaited rank. The chain ends at a rank that
// isn't in a collective (then a timeout names that rank), or it forms a ring. Each rank sends the number of its call
// and its history up to that call to the next rank. The numbers can't decrease at every step of a ring, so some rank
// receives a question about a call that it has made.
//
// If that rank has the same history, it is in that call or past it. If this held for all ranks of the ring, a proved
// schedule would deadlock. So two neighbours in the ring have different histories, and the queried rank detects the
// mismatch.
//
// Two teams: a rank that has only sent in a call of team A detects A's mismatch when it checks A's alarm. At that time
// it may wait in team B for a rank that has received the mismatch error and exits, closes or computes. So a rank that
// waits in B checks the alarms of its other teams and sends its reports there. If the awaited rank failed in A, this
// rank reports A's mismatch when its wait in B ends by a death, by the deadline, or by another rank's failure.
//
// In a call that needs all ranks, a rank may wait for the failed rank indirectly. So if the awaited rank is on another
// node, this rank checks the ranks of its own node that haven't arrived.
//
// The awaited rank may have caught the error and may still arrive in B; then B continues. So the wait ends early only
// if the awaited rank makes no call for 10 s, or is in Runtime::close for 1 s; at most half of the timeout in both
// cases. The states of ranks on other nodes aren't visible. For them, a waiting rank of their node, or the deadline,
// fails B.
#include "collectives/network/long_waits.hpp"

#include <algorithm>

#include "collectives/network/schedule_team.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::int64_t check_interval_ns = 500'000;
/// A longer wait has another cause than a message in flight. One question per call and awaited rank, if each rank has
/// its own slot.
constexpr std::int64_t first_question_ns = 2'000'000;
/// If ranks share slots, questions are repeated. The interval doubles each time, up to this value.
constexpr std::int64_t longest_interval_ns = 1'000'000'000;
/// Interval of the checks for another team's failure.
constexpr std::int64_t elsewhere_interval_ns = 10'000'000;
/// The wait ends if a rank that has failed elsewhere makes no call, or is in Runtime::close, for this time.
constexpr std::int64_t idle_limit_ns = 10'000'000'000;
constexpr std::int64_t closing_limit_ns = 1'000'000'000;

}  // namespace

Status LongWaits::look(const base::WaitNote& note, std::int64_t now) noexcept {
  int awaited = note.peer;
  std::uint64_t call = 0;  // the waiting call, if it needs all ranks; else 0
  {
    const auto guard = team_.hold();
    const History& history = team_.history_;
    if (team_.failure_.ok() && !team_.check_alarm())
      check(blocking_, team_.team_.rank_of(note.peer), history.calls(), history.word(), now);
    if (!team_.failure_.ok()) return team_.failure_.status();
    // If the wait is for a request, the oldest call in flight represents it.
    const auto& active = team_.active_;
    const Operation* const waiting = awaited >= 0 ? &team_.blocking_ : active.empty() ? nullptr : active.front();
    if (waiting != nullptr && awaited < 0) awaited = team_.arena_.world(team_.awaited_by(*waiting));
    if (waiting != nullptr && waiting->synchronises()) call = waiting->call_number;
  }
  const int failed = rank_to_give_up_on(awaited, call, now);  // without the lock: the other teams take it
  if (failed < 0) return {};
  const auto guard = team_.hold();
  return team_.fail_locked(Status::failure(Code::error, "a rank has given up in another team", failed));
}

void LongWaits::check_started(std::int64_t now) noexcept {
  for (const Operation* const operation : team_.active_) {
    if (operation->outcome.code != Code::in_progress || operation->blocking()) continue;
    return check(started_, team_.awaited_by(*operation), operation->call_number, operation->history, now);
  }
}

/// `call`, `history`: of the waiting call.
void LongWaits::check(Asker& asker, int peer, std::uint64_t call, std::uint64_t history, std::int64_t now) noexcept {
  if (now - asker.checked_at < check_interval_ns) return;
  asker.checked_at = now;
  receive_questions();
  if (!team_.failure_.ok() || peer < 0 || peer == team_.rank_) return;
  using Question = FailureArea::Question;
  send_question(asker, peer, Question{call, Question::tag_of(history), team_.rank_}.word(), now);
}

void LongWaits::receive_questions() noexcept {
  using Question = FailureArea::Question;
  const FailureArea& area = team_.arena_.failures();
  const History& history = team_.history_;
  for (std::uint32_t asker = 0; asker < FailureArea::askers(team_.size_); ++asker) {
    for (int kind = 0; kind < FailureArea::kinds_of_questions; ++kind) {
      const std::uint64_t word = team_.arena_.word(area.question_offset(asker, kind));
      if (word == 0) continue;
      const Question question = Question::of(word, history.calls());
      // A question about a call that this rank hasn't made stays in its slot until this rank makes the call.
      if (!history.has(question.call) || Question::tag_of(history.word_of(question.call)) == question.tag) continue;
      const int rank = question.rank < team_.size_ ? team_.arena_.world(question.rank) : -1;
      team_.fail_locked(Status::failure(Code::mismatch, "ranks called different collectives", rank), question.call);
      return;
    }
  }
}

void LongWaits::send_question(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (asker.peer != peer || asker.question != question) {
    asker.peer = peer;
    asker.question = question;
    asker.interval = first_question_ns;
    asker.next = now + asker.interval;
    return;
  }
  if (now < asker.next) return;
  if (team_.closes_) return;  // all ranks have made the same calls, and the peer may have freed its arena
  const std::uint32_t slots = FailureArea::askers(team_.size_);
  asker.interval = std::min(2 * asker.interval, longest_interval_ns);
  asker.next = static_cast<int>(slots) < team_.size_ ? now + asker.interval : INT64_MAX;
  std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
  const Arena& arena = team_.arena_;
  const std::uint64_t offset =
      arena.failures().question_offset(static_cast<std::uint32_t>(team_.rank_) % slots, &asker == &started_ ? 0 : 1);
  // The peer may complete the call, drop the team, and receive the question afterwards.
  const Status sent = rma::begin_notify(arena.window(), peer, 0, nullptr, 0, offset, question, ticket);
  static_cast<void>(sent);  // the death of an unreachable peer is reported elsewhere
  rma::nudge(arena.window(), peer);
}

/// Returns the rank because of which the wait must end: it has failed in another team and makes no further call. -1:
/// none.
int LongWaits::rank_to_give_up_on(int awaited, std::uint64_t call, std::int64_t now) noexcept {
  if (now - elsewhere_.checked_at < elsewhere_interval_ns) return -1;
  elsewhere_.checked_at = now;
  const int failed = rank_failed_elsewhere(awaited, call);
  // Relaxed: only a value that stays for seconds has an effect.
  const std::uint64_t calls = failed < 0 ? 0 : line_of(failed)->calls.load(std::memory_order_relaxed);
  if (failed < 0 || elsewhere_.world_rank != failed || elsewhere_.call != call || elsewhere_.rank_calls != calls) {
    elsewhere_ = {now, failed, call, calls, now};
    return -1;
  }
  const std::int64_t limit = team_.fabric_.tickets.is_closing(failed) ? closing_limit_ns : idle_limit_ns;
  return now - elsewhere_.since >= std::min(limit, team_.fabric_.timeout.count() / 2) ? failed : -1;
}

/// Returns the awaited rank if it has failed in another team. If the awaited rank is on another node, returns such a
/// rank of this node that hasn't arrived at `call`; no rank returns from `call` before all have arrived. -1: none.
int LongWaits::rank_failed_elsewhere(int awaited, std::uint64_t call) noexcept {
  progress::Tickets& tickets = team_.fabric_.tickets;
  const auto has_failed = [&](int world_rank) noexcept {
    const base::ActivityLine* const line = line_of(world_rank);
    if (line == nullptr) return false;
    // Relaxed: only a value that stays for seconds has an effect. Calls without a long wait don't change the activity,
    // but increment the line's count of calls.
    const auto activity = static_cast<base::Activity>(line->activity.load(std::memory_order_relaxed));
    return (activity == base::Activity::computing || tickets.is_closing(world_rank)) &&
           tickets.unheard_mismatch(world_rank) != nullptr;
  };
  if (awaited < 0) return -1;
  if (line_of(awaited) != nullptr) return has_failed(awaited) ? awaited : -1;
  if (team_.closes_) return -1;  // peers may have freed their parts of the arena
  for (int rank = 0; rank < team_.size_; ++rank) {
    Ledger* const ledger = team_.arena_.ledger_of(rank);
    if (ledger != nullptr && ledger->calls() < call && has_failed(team_.arena_.world(rank)))
      return team_.arena_.world(rank);
  }
  return -1;
}

/// Null if the rank is on another node.
const base::ActivityLine* LongWaits::line_of(int world_rank) const noexcept {
  const rma::Fabric& fabric = team_.fabric_;
  const int index = fabric.peer(world_rank).local_index;
  return index < 0 ? nullptr : &fabric.waiter.page().activity(index);
}

}  // namespace hmc::collectives
