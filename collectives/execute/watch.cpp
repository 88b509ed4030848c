// What a rank does in a long wait so that ranks which called different things don't wait for each other until the
// deadline: it asks whoever it waits for.
//
// Why that is enough. Ranks that wait in vain, each for the next, end at a rank that isn't in a collective at all
// (which is a timeout, and named) or form a ring. Each tells the next one the number of its call and its history up to
// there. Numbers can't fall all the way round a ring, so some rank is asked of a call that it has made. If its history
// is the same it is in that call or past it and has sent what belongs to it; if all were so in one call, a schedule
// that is proved would be stuck. So somewhere in the ring histories differ, and the one asked sees it.
#include "collectives/execute/schedule_team.hpp"
#include "runtime/window/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::int64_t between_looks_ns = 500'000;
/// A wait so long isn't one for a message under way. One question for each call and rank waited for.
constexpr std::int64_t before_asking_ns = 2'000'000;
constexpr unsigned idle_rounds = 64;  // a look at the clock for so many turns without a step

}  // namespace

Status ScheduleTeam::look(const base::WaitNote& note, std::int64_t now) noexcept {
  if (failure_.ok() && !hear_alarm()) look_after(team_.rank_of(note.peer), history_.calls(), history_.word(), now);
  return failure_;
}

void ScheduleTeam::look_after(int peer, std::uint64_t call, std::uint64_t history, std::int64_t now) noexcept {
  if (now - looked_at_ < between_looks_ns) return;
  looked_at_ = now;
  hear_questions();
  if (failure_.ok() && peer >= 0 && peer != rank_) ask(peer, Arena::stamp(call, history), now);
}

/// Who waits for a request, or tests it, has no watch: the oldest one that is under way stands for it.
void ScheduleTeam::look_after_started() noexcept {
  if (++idle_ % idle_rounds != 0) return;
  for (const Operation* const operation : active_) {
    if (operation->outcome.code != Code::in_progress) continue;
    return look_after(awaited_by(*operation), operation->call_number, operation->history, base::now_ns());
  }
}

void ScheduleTeam::hear_questions() noexcept {
  for (int rank = 0; rank < size_; ++rank) {
    const std::uint64_t question = arena_.word(arena_.question_offset(rank));
    const std::uint64_t call = question >> Arena::tag_bits;
    // Of a call that I haven't made yet: it stays there until I have.
    if (!history_.has(call) || Arena::stamp(call, history_.word_of(call)) == question) continue;
    fail(Status::failure(Code::mismatch, "ranks called different collectives", arena_.world(rank)), call);
    return;
  }
}

void ScheduleTeam::ask(int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (question_.peer != peer || question_.stamp != question) {
    question_ = {peer, question, now, false};
    return;
  }
  if (question_.is_asked || now - question_.since < before_asking_ns) return;
  question_.is_asked = true;
  std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
  const Status sent =
      window::begin_put_signal(arena_.window(), peer, 0, nullptr, 0, arena_.question_offset(rank_), question, ticket);
  static_cast<void>(sent);  // who can't be reached has failed, and that is told otherwise
}

}  // namespace hmc::collectives
