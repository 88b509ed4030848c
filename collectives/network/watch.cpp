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
#include <algorithm>

#include "collectives/network/schedule_team.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::int64_t between_looks_ns = 500'000;
/// A longer wait has another cause than a message in flight. One question per call and awaited rank, if each rank has
/// its own slot.
constexpr std::int64_t before_asking_ns = 2'000'000;
/// If ranks share slots, questions are repeated. The interval doubles each time, up to this value.
constexpr std::int64_t longest_interval_ns = 1'000'000'000;
/// Interval of the checks for another team's failure.
constexpr std::int64_t between_looks_elsewhere_ns = 10'000'000;
constexpr std::int64_t before_giving_up_ns = 10'000'000'000;
constexpr std::int64_t before_giving_up_who_closes_ns = 1'000'000'000;

}  // namespace

/// Encodes the question about this call.
std::uint64_t ScheduleTeam::question_of(std::uint64_t call, std::uint64_t history) const noexcept {
  return FailureArea::Question{call, FailureArea::Question::tag_of(history), rank_}.word();
}

Status ScheduleTeam::look(const base::WaitNote& note, std::int64_t now) noexcept {
  int awaited = note.peer;
  std::uint64_t call = 0;  // the waiting call, if it needs all ranks; else 0
  {
    const auto guard = hold();
    if (failure_.ok() && !hear_alarm())
      look_after(blocking_asker_, team_.rank_of(note.peer), question_of(history_.calls(), history_.word()), now);
    if (!failure_.ok()) return failure_.status();
    // If the wait is for a request, the oldest call in flight represents it.
    const Operation* const waiting = awaited >= 0 ? &blocking_ : active_.empty() ? nullptr : active_.front();
    if (waiting != nullptr && awaited < 0) awaited = arena_.world(awaited_by(*waiting));
    if (waiting != nullptr && waiting->synchronises()) call = waiting->call_number;
  }
  const int missing = waits_in_vain_for(awaited, call, now);
  if (missing < 0) return {};
  const auto guard = hold();
  return give_up(Status::failure(Code::error, "a rank has given up in another team", missing));
}

/// Returns the failed rank because of which the wait must end; -1: none. Called without the lock, because the other
/// teams take it.
int ScheduleTeam::waits_in_vain_for(int awaited, std::uint64_t call, std::int64_t now) noexcept {
  if (now - elsewhere_.looked_at < between_looks_elsewhere_ns) return -1;
  elsewhere_.looked_at = now;
  const int missing = who_gave_up_elsewhere(awaited, call);
  const std::uint64_t theirs = missing < 0 ? 0 : line_of(missing)->calls.load(std::memory_order_relaxed);
  if (missing < 0 || elsewhere_.world_rank != missing || elsewhere_.call != call || elsewhere_.theirs != theirs) {
    elsewhere_ = {now, missing, call, theirs, now};
    return -1;
  }
  const std::int64_t bound = closes_runtime(missing) ? before_giving_up_who_closes_ns : before_giving_up_ns;
  return now - elsewhere_.since >= std::min(bound, fabric_.timeout.count() / 2) ? missing : -1;
}

/// Returns the awaited rank if it has failed in another team. If the awaited rank is on another node, returns such a
/// rank of this node that hasn't arrived at `call`; no rank returns from `call` before all have arrived. -1: none.
int ScheduleTeam::who_gave_up_elsewhere(int awaited, std::uint64_t call) noexcept {
  const auto has_given_up = [&](int world_rank) noexcept {
    return line_of(world_rank) != nullptr && (closes_runtime(world_rank) || is_in_no_call(world_rank)) &&
           fabric_.tickets.unheard_mismatch(world_rank) != nullptr;
  };
  if (awaited < 0) return -1;
  if (line_of(awaited) != nullptr) return has_given_up(awaited) ? awaited : -1;
  if (closes_) return -1;  // peers may have freed their parts of the arena
  for (int rank = 0; rank < size_; ++rank) {
    Ledger* const ledger = arena_.ledger_of(rank);
    if (ledger != nullptr && ledger->calls() < call && has_given_up(arena_.world(rank))) return arena_.world(rank);
  }
  return -1;
}

/// Null if the rank is on another node.
const base::ActivityLine* ScheduleTeam::line_of(int world_rank) const noexcept {
  const int index = fabric_.peer(world_rank).local_index;
  return index < 0 ? nullptr : &fabric_.waiter.page().activity(index);
}

/// True if the rank's activity line shows no call.
bool ScheduleTeam::is_in_no_call(int world_rank) const noexcept {
  const base::ActivityLine* const line = line_of(world_rank);
  if (line == nullptr) return false;
  // Relaxed: only a value that stays for seconds has an effect. Calls without a long wait don't change the activity,
  // but increment the line's count of calls.
  const std::uint32_t activity = line->activity.load(std::memory_order_relaxed);
  return static_cast<base::Activity>(activity) == base::Activity::computing;
}

/// True if the rank is in Runtime::close and makes no further call.
bool ScheduleTeam::closes_runtime(int world_rank) const noexcept { return fabric_.tickets.is_closing(world_rank); }

bool ScheduleTeam::has_unreported_mismatch(int world_rank) noexcept {
  const auto guard = hold();
  if (closes_) return false;
  if (failure_.ok()) hear_alarm();
  const int rank = team_.rank_of(world_rank);
  return rank >= 0 && failure_.has_mismatch_from(rank);
}

bool ScheduleTeam::is_closing(int world_rank) noexcept {
  Ledger* const ledger = team_.is_world() && !closes_ ? arena_.ledger_of(world_rank) : nullptr;
  if (ledger == nullptr) return false;
  const Signature last = ledger->signature_of(ledger->calls());
  return last.kind() == Kind::setup && last.setup() == base::SetupCall::runtime_close;
}

void ScheduleTeam::look_after(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (now - asker.looked_at < between_looks_ns) return;
  asker.looked_at = now;
  hear_questions();
  if (failure_.ok() && peer >= 0 && peer != rank_) ask(asker, peer, question, now);
}

/// A wait for a request has no awaited rank, and a test doesn't call look(). For both, the rank sends questions to the
/// awaited rank of the oldest operation in flight.
void ScheduleTeam::look_after_started(std::int64_t now) noexcept {
  for (const Operation* const operation : active_) {
    if (operation->outcome.code != Code::in_progress || operation->blocking()) continue;
    return look_after(started_asker_, awaited_by(*operation), question_of(operation->call_number, operation->history),
                      now);
  }
}

void ScheduleTeam::hear_questions() noexcept {
  using Question = FailureArea::Question;
  const FailureArea& area = arena_.failures();
  for (std::uint32_t asker = 0; asker < FailureArea::askers(size_); ++asker) {
    for (int which = 0; which < FailureArea::kinds_of_questions; ++which) {
      const std::uint64_t word = arena_.word(area.question_offset(asker, which));
      if (word == 0) continue;
      const Question question = Question::of(word, history_.calls());
      // A question about a call that this rank hasn't made stays in its slot until this rank makes the call.
      if (!history_.has(question.call) || Question::tag_of(history_.word_of(question.call)) == question.tag) continue;
      const int rank = question.rank < size_ ? arena_.world(question.rank) : -1;
      give_up(Status::failure(Code::mismatch, "ranks called different collectives", rank), question.call);
      return;
    }
  }
}

void ScheduleTeam::ask(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (asker.peer != peer || asker.question != question) {
    asker.peer = peer;
    asker.question = question;
    asker.interval = before_asking_ns;
    asker.next = now + asker.interval;
    return;
  }
  if (now < asker.next) return;
  if (closes_) return;  // all ranks have made the same calls, and the peer may have freed its arena
  const std::uint32_t slots = FailureArea::askers(size_);
  asker.interval = std::min(2 * asker.interval, longest_interval_ns);
  asker.next = static_cast<int>(slots) < size_ ? now + asker.interval : INT64_MAX;
  std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
  const int which = &asker == &started_asker_ ? 0 : 1;
  const std::uint64_t offset = arena_.failures().question_offset(static_cast<std::uint32_t>(rank_) % slots, which);
  const Status sent = rma::begin_put_signal(arena_.window(), peer, 0, nullptr, 0, offset, question, ticket);
  static_cast<void>(sent);  // the death of an unreachable peer is reported elsewhere
  rma::nudge(arena_.window(), peer);
}

}  // namespace hmc::collectives
