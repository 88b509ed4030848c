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

}  // namespace

Status ScheduleTeam::look(const base::WaitNote& note, std::int64_t now) noexcept {
  const auto guard = hold();
  if (failure_.ok() && !hear_alarm())
    look_after(blocking_asker_, team_.rank_of(note.peer), Arena::stamp(history_.calls(), history_.word()), now);
  return failure_;
}

void ScheduleTeam::look_after(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (now - asker.looked_at < between_looks_ns) return;
  asker.looked_at = now;
  hear_questions();
  if (failure_.ok() && peer >= 0 && peer != rank_) ask(asker, peer, question, now);
}

/// Who waits for a request, or tests it, has no watch: the oldest one that is under way stands for it.
void ScheduleTeam::look_after_started(std::int64_t now) noexcept {
  for (const Operation* const operation : active_) {
    if (operation->outcome.code != Code::in_progress || operation->blocking()) continue;
    return look_after(started_asker_, awaited_by(*operation), Arena::stamp(operation->call_number, operation->history),
                      now);
  }
}

void ScheduleTeam::hear_questions() noexcept {
  for (int i = 0; i < size_ * Arena::questions; ++i) {
    const int rank = i / Arena::questions;
    const std::uint64_t question = arena_.word(arena_.question_offset(rank, i % Arena::questions));
    const std::uint64_t call = question >> Arena::tag_bits;
    // Of a call that I haven't made yet: it stays there until I have.
    if (!history_.has(call) || Arena::stamp(call, history_.word_of(call)) == question) continue;
    give_up(Status::failure(Code::mismatch, "ranks called different collectives", arena_.world(rank)), call);
    return;
  }
}

void ScheduleTeam::ask(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept {
  if (asker.peer != peer || asker.question != question) {
    asker.peer = peer;
    asker.question = question;
    asker.since = now;
    asker.has_asked = false;
    return;
  }
  if (asker.has_asked || now - asker.since < before_asking_ns) return;
  if (closes_) return;  // all have called the same, and whoever is asked may have gone
  asker.has_asked = true;
  std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
  const int which = &asker == &started_asker_ ? 0 : 1;
  const Status sent = window::begin_put_signal(arena_.window(), peer, 0, nullptr, 0,
                                               arena_.question_offset(rank_, which), question, ticket);
  static_cast<void>(sent);  // who can't be reached has failed, and that is told otherwise
  window::nudge(arena_.window(), peer);
}

}  // namespace hmc::collectives
