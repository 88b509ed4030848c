// Failures of a team: how they reach all ranks, and how each rank determines the cause.
#include <algorithm>
#include <chrono>
#include <thread>

#include "collectives/network/schedule_team.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

bool waited_in_vain(const Report& report) noexcept {
  const auto code = static_cast<Code>(report.code);
  return code == Code::timeout || code == Code::mismatch;
}

/// A report that read_ledgers built for a rank that is in no call.
bool is_read(const Report& report) noexcept { return static_cast<Code>(report.code) == Code::in_progress; }

bool is_of_the_job(const Status& status) noexcept {
  return status.code == Code::peer_failed || status.code == Code::aborted;
}

}  // namespace

/// The first rank that fails writes its report to all others and raises their alarms. A rank that sees the alarm does
/// the same. So a rank that waits for a peer which will never arrive fails at once, wherever in the algorithm both are.
/// Deaths and aborts reach all ranks by the node page, so no report is sent for them; all other failures are reported.
///
/// A rank that reported a failure may have exited since, and a slow rank may detect that death before it checks the
/// alarm. The alarm was raised first and takes precedence. It may still be in a wire, so the wires are progressed
/// first.
const Status& ScheduleTeam::give_up(const Status& status, std::uint64_t call) noexcept {
  if (!failure_.ok()) return failure_;
  if (is_of_the_job(status)) {
    for (const auto& wire : fabric_.wires) wire->progress();
    if (hear_alarm()) return failure_;
  }
  failure_ = status;
  history_.is_over.store(true, std::memory_order_relaxed);
  write_report(call != 0 ? call : call_in_question());
  for (Operation* const operation : active_) operation->abandon();
  if (!is_of_the_job(status)) send_report();
  return failure_;
}

void ScheduleTeam::fail(const Status& status) noexcept {
  const auto guard = hold();
  give_up(status);
}

Status ScheduleTeam::failure() const noexcept {
  const auto guard = hold();
  return failure_;
}

bool ScheduleTeam::was_told() const noexcept {
  const auto guard = hold();
  return told_by_ >= 0;
}

bool ScheduleTeam::failed_before() const noexcept {
  const auto guard = hold();
  std::uint64_t call = conflict_;
  if (call == 0 && told_by_ >= 0 && arena_.word(Arena::report_offset(told_by_)) != 0)
    call = arena_.report(told_by_).call;
  return call != 0 && call < history_.calls();
}

/// The current blocking call, or the oldest call in flight.
std::uint64_t ScheduleTeam::call_in_question() const noexcept {
  for (const Operation* const operation : active_)
    if (operation->outcome.code == Code::in_progress) return operation->call_number;
  return history_.calls();
}

/// Calls in flight have signatures, even if the history has dropped them.
Signature ScheduleTeam::signature_at(std::uint64_t call) const noexcept {
  if (history_.has(call)) return history_.signature_of(call);
  for (const Operation* const operation : active_)
    if (operation->call_number == call) return operation->args().signature;
  return {};
}

void ScheduleTeam::write_report(std::uint64_t call) noexcept {
  report_.code = static_cast<std::uint64_t>(failure_.code);
  report_.peer = static_cast<std::uint64_t>(failure_.peer);
  report_.call = call;
  // A rank that hasn't reached the call reports the last calls that it made.
  const std::uint64_t last = std::min(call, history_.calls());
  report_.first = last > Report::before ? last - Report::before : 1;
  for (std::uint64_t i = 0; i < Report::told; ++i) report_.signatures[i] = signature_at(report_.first + i).word();
}

bool ScheduleTeam::hear_alarm() noexcept {
  const std::uint64_t alarm = arena_.word(Arena::alarm_offset);
  if (alarm == 0) [[likely]]
    return false;
  const int rank = static_cast<int>(alarm) - 1;
  // All ranks report the same calls, if they can.
  const bool heard = arena_.word(Arena::report_offset(rank)) != 0;
  told_by_ = rank;
  give_up(Status::failure(Code::timeout, gave_up, arena_.world(rank)), heard ? arena_.report(rank).call : 0);
  return true;
}

void ScheduleTeam::send_report() noexcept {
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const std::uint64_t offset = Arena::report_offset(rank_);
    std::uint64_t ticket = 0;  // report_ doesn't change from now on
    Status sent = rma::begin_put_signal(arena_.window(), peer, offset + sizeof report_.args, &report_.code,
                                        sizeof report_ - sizeof report_.args, offset, 1, ticket);
    if (sent.ok())
      sent = rma::begin_put_signal(arena_.window(), peer, 0, nullptr, 0, Arena::alarm_offset,
                                   static_cast<std::uint64_t>(rank_) + 1, ticket);
    static_cast<void>(sent);  // a peer that can't be reached has its own failure
    rma::nudge(arena_.window(), peer);
  }
}

Status ScheduleTeam::explain() noexcept {
  {
    const auto guard = hold();
    unshare();  // nothing is in flight any more: from here on only the owner accesses the state
  }
  if (explained_ || (failure_.code != Code::timeout && failure_.code != Code::mismatch)) return failure_;
  explained_ = true;
  const Status died = hear_others();
  read_ledgers();
  const Status settled = settle();
  failure_ = died.ok() || settled.code == Code::mismatch ? settled : died;
  return failure_;
}

/// Waits for the other ranks' reports; ranks in a call send theirs at once. A death or an abort ends the wait and is
/// returned. Exception: if this rank has evidence of a mismatch, the mismatch is the cause, and ranks that detect it
/// mostly exit. Then it waits for the other reports until the limit.
Status ScheduleTeam::hear_others() noexcept {
  int dead = -1;
  const auto all_heard = [&]() noexcept {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_ && rank != dead && arena_.word(Arena::report_offset(rank)) == 0) return false;
    return true;
  };
  constexpr std::chrono::milliseconds moment{250};
  const base::WaitNote note{base::Activity::wait_request, failure_.peer};
  const std::int64_t limit = base::now_ns() + std::min<std::chrono::nanoseconds>(moment, fabric_.timeout).count();
  Status died;
  for (;;) {
    const Status waited = fabric_.waiter.until(note, all_heard, std::chrono::nanoseconds(limit - base::now_ns()));
    if (!is_of_the_job(waited)) return died;
    died = waited;
    dead = team_.rank_of(waited.peer);
    if (settle().code != Code::mismatch || base::now_ns() >= limit) return died;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the waiter doesn't sleep in an aborted job
  }
}

/// A rank without a report is mostly in no call: it has only sent, and computes now. Its ledger is compared with this
/// rank's report.
void ScheduleTeam::read_ledgers() noexcept {
  for (int rank = 0; rank < size_; ++rank) {
    Ledger* const ledger = rank == rank_ ? nullptr : arena_.ledger_of(rank);
    if (ledger == nullptr || arena_.word(Arena::report_offset(rank)) != 0) continue;
    try {
      read_.resize(static_cast<std::size_t>(size_));
    } catch (const std::bad_alloc&) {
      return;  // then fewer calls are reported
    }
    Report& read = read_[static_cast<std::size_t>(rank)];
    read.args = 1;
    read.code = static_cast<std::uint64_t>(Code::in_progress);
    read.call = ledger->calls();
    read.first = report_.first;
    for (std::uint64_t i = 0; i < Report::told; ++i) read.signatures[i] = ledger->signature_of(read.first + i).word();
  }
}

const Report* ScheduleTeam::report_of(int rank) const noexcept {
  if (rank == rank_) return &report_;
  if (arena_.word(Arena::report_offset(rank)) != 0) return &arena_.report(rank);
  if (read_.empty()) return nullptr;
  const Report& read = read_[static_cast<std::size_t>(rank)];
  return read.args != 0 ? &read : nullptr;
}

/// Determines the cause from the reports so far.
Status ScheduleTeam::settle() noexcept {
  conflict_ = 0;
  int missing = -1;
  int cause = -1;    // a rank with a failure other than a timeout or mismatch
  int witness = -1;  // a rank that detected a mismatch
  int other = failure_.code == Code::mismatch ? team_.rank_of(failure_.peer) : -1;
  int first = -1;  // the first rank with a report
  const auto consider = [&](std::uint64_t number, int rank) noexcept {
    if (number == 0 || (conflict_ != 0 && conflict_ <= number)) return;
    conflict_ = number;
    other = rank;
  };
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const Report* const known = report_of(rank);
    const bool is_heard = known != nullptr && !is_read(*known);
    if (!is_heard && missing < 0) missing = rank;
    if (known == nullptr) continue;
    const Report& report = *known;
    if (is_heard && witness < 0 && static_cast<Code>(report.code) == Code::mismatch) witness = rank;
    if (is_heard && cause < 0 && !waited_in_vain(report)) cause = rank;
    if (first < 0) first = rank;
    // Other ranks may differ in a call that this rank hasn't made yet.
    consider(Report::conflict(report_, report), rank);
    consider(Report::conflict(*report_of(first), report), rank);
  }
  if (conflict_ != 0 || failure_.code == Code::mismatch || witness >= 0) {
    if (conflict_ == 0) conflict_ = witness >= 0 ? arena_.report(witness).call : report_.call;
    if (other < 0) other = witness;
    return Status::failure(Code::mismatch, "ranks called different collectives", arena_.world(other));
  }
  if (cause >= 0) {
    const auto code = static_cast<Code>(arena_.report(cause).code);
    return Status::failure(code, "a rank of the team gave up the call", arena_.world(cause));
  }
  return missing < 0 ? failure_ : Status::failure(Code::timeout, "the deadline passed", arena_.world(missing));
}

PeerReport ScheduleTeam::peer_report_of(int rank) const noexcept {
  if (const Report* const report = report_of(rank)) {
    const Signature signature = report->signature_of(conflict_);
    if (signature.kind() != Kind::none) return {PeerReport::Part::called, signature};
    if (!is_read(*report) || report->call < conflict_) return {PeerReport::Part::absent, {}};
  }
  const auto accuses = [&](const Report* report) {
    return report != nullptr && static_cast<Code>(report->code) == Code::mismatch &&
           static_cast<int>(report->peer) == arena_.world(rank);
  };
  for (int other = 0; other < size_; ++other)
    if (accuses(report_of(other))) return {PeerReport::Part::otherwise, {}};
  return {};
}

}  // namespace hmc::collectives
