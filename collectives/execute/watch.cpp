// What a rank does in a long wait so that ranks which called different things don't wait for each other until the
// deadline: it asks whoever it waits for.
//
// Why that is enough. Ranks that wait in vain, each for the next, end at a rank that isn't in a collective at all
// (which is a timeout, and named) or form a ring. Each tells the next one the number of its call and its history up to
// there. Numbers can't fall all the way round a ring, so some rank is asked of a call that it has made. If its history
// is the same it is in that call or past it and has sent what belongs to it; if all were so in one call, a schedule
// that is proved would be stuck. So somewhere in the ring histories differ, and the one asked sees it.
//
// Two teams. A rank that has only given in a call of team A learns of A's mismatch when it looks at A's alarm, and may
// wait in team B by then, for a rank that was told of the mismatch and ends, closes or does something else about it. So
// who waits in B looks at the alarms of its other teams, answers them, and where the rank that it waits for gave up in
// A, A's mismatch is what it says of whatever B's wait ends by: a death, the deadline, another rank's giving up. Where
// all wait for all they wait for it through others: if the next one is on another node, a rank of this node that hasn't
// come is meant.
//
// Whether that rank still comes to B nobody can know: it may have caught the error and be on its way, and then B goes
// on as if nothing had happened. So the wait ends early only if that rank makes no call for ten seconds, or is in
// Runtime::close for one, or for half of the deadline. What ranks of other nodes are in isn't known here: whoever
// shares their node and waits ends B for all, or the deadline does.
#include <algorithm>

#include "collectives/execute/schedule_team.hpp"
#include "runtime/window/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::int64_t between_looks_ns = 500'000;
/// A wait so long isn't one for a message under way. One question for each call and rank waited for.
constexpr std::int64_t before_asking_ns = 2'000'000;
/// Of another team's failure.
constexpr std::int64_t between_looks_elsewhere_ns = 10'000'000;
constexpr std::int64_t before_giving_up_ns = 10'000'000'000;
constexpr std::int64_t before_giving_up_who_closes_ns = 1'000'000'000;

}  // namespace

Status ScheduleTeam::look(const base::WaitNote& note, std::int64_t now) noexcept {
  int awaited = note.peer;
  std::uint64_t call = 0;  // 0: not one that needs all ranks
  {
    const auto guard = hold();
    if (failure_.ok() && !hear_alarm())
      look_after(blocking_asker_, team_.rank_of(note.peer), Arena::stamp(history_.calls(), history_.word()), now);
    if (!failure_.ok()) return failure_;
    // A request's wait: the oldest call stands for it.
    const Operation* const waiting = awaited >= 0 ? &blocking_ : active_.empty() ? nullptr : active_.front();
    if (waiting != nullptr && awaited < 0) awaited = arena_.world(awaited_by(*waiting));
    if (waiting != nullptr && waiting->synchronises()) call = waiting->call_number;
  }
  const int missing = waits_in_vain_for(awaited, call, now);
  if (missing < 0) return {};
  const auto guard = hold();
  return give_up(Status::failure(Code::error, "a rank has given up in another team", missing));
}

/// -1: for nobody, as far as is known. Without the lock, which the other teams take.
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

/// The awaited rank; or, if that is on another node, a rank of this one that hasn't come to a call which nobody leaves
/// before all have come.
int ScheduleTeam::who_gave_up_elsewhere(int awaited, std::uint64_t call) noexcept {
  const auto has_given_up = [&](int world_rank) noexcept {
    return line_of(world_rank) != nullptr && (closes_runtime(world_rank) || is_in_no_call(world_rank)) &&
           window::unheard_mismatch(fabric_, world_rank) != nullptr;
  };
  if (awaited < 0) return -1;
  if (line_of(awaited) != nullptr) return has_given_up(awaited) ? awaited : -1;
  if (closes_) return -1;  // others' parts of the arena may have gone
  for (int rank = 0; rank < size_; ++rank) {
    Ledger* const ledger = arena_.ledger_of(rank);
    if (ledger != nullptr && ledger->calls() < call && has_given_up(arena_.world(rank))) return arena_.world(rank);
  }
  return -1;
}

/// Null: on another node.
const base::ActivityLine* ScheduleTeam::line_of(int world_rank) const noexcept {
  const int index = fabric_.local_index[static_cast<std::size_t>(world_rank)];
  return index < 0 ? nullptr : &fabric_.waiter.page().activity(index);
}

/// As its line says.
bool ScheduleTeam::is_in_no_call(int world_rank) const noexcept {
  const base::ActivityLine* const line = line_of(world_rank);
  if (line == nullptr) return false;
  // Relaxed: a hint; it has to be so for long. Calls that don't wait for long don't show in it, but count.
  const std::uint32_t activity = line->activity.load(std::memory_order_relaxed);
  return static_cast<base::Activity>(activity) == base::Activity::computing;
}

/// And begins no call any more.
bool ScheduleTeam::closes_runtime(int world_rank) const noexcept {
  return std::ranges::any_of(fabric_.sources, [&](window::TicketSource* source) {
    return source != nullptr && source->is_closing(world_rank);
  });
}

bool ScheduleTeam::has_unheard_mismatch(int world_rank) noexcept {
  const auto guard = hold();
  if (explained_ || closes_ || (failure_.ok() && !hear_alarm())) return false;
  const int rank = team_.rank_of(world_rank);
  if (rank < 0 || (rank != rank_ && arena_.word(Arena::report_offset(rank)) == 0)) return false;
  return (failure_.code == Code::timeout || failure_.code == Code::mismatch) && settle().code == Code::mismatch;
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
