// ScheduleTeam: the failures that schedules detect, and the outcomes of requests. TeamFailure propagates and explains
// failures.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

using base::Status;

/// A rank may report a failure and then exit. A slow rank may detect that death before it checks the alarm. The alarm
/// was raised first and takes precedence. It may still be in flight, so the wires make progress first. It may not have
/// been relayed to this rank yet, so the reports of this node's ranks are checked too.
const Status& ScheduleTeam::fail_locked(const Status& status, std::uint64_t call,
                                        const TeamFailure::Alarm& alarm) noexcept {
  if (!failure_.ok()) return failure_.status();
  const bool is_of_the_job = TeamFailure::is_of_the_job(status);
  if (is_of_the_job) {
    for (const auto& wire : fabric_.wires) wire->progress();
    if (check_alarm()) return failure_.status();
    if (const TeamFailure::Alarm published = failure_.published_on_node(); published.rank >= 0) {
      fail_by_alarm(published);
      return failure_.status();
    }
  }
  failure_.record(status, report_on(call != 0 ? call : oldest_call()), alarm);
  for (Operation* const operation : active_) operation->abandon();
  // Different values of `largest` fail every rank at the same step: no report is needed.
  if (!is_of_the_job && !different_largest_) failure_.publish();
  return failure_.status();
}

void ScheduleTeam::fail(const Status& status) noexcept {
  const auto guard = hold();
  fail_locked(status);
}

Status ScheduleTeam::failure() const noexcept {
  const auto guard = hold();
  return failure_.status();
}

bool ScheduleTeam::received_alarm() const noexcept {
  const auto guard = hold();
  return failure_.received_alarm();
}

bool ScheduleTeam::failed_before() const noexcept {
  const auto guard = hold();
  return failure_.failed_before();
}

/// The current blocking call, or the oldest call in flight.
std::uint64_t ScheduleTeam::oldest_call() const noexcept {
  for (const Operation* const operation : active_)
    if (operation->outcome.code == Code::in_progress) return operation->call_number;
  return history_.calls();
}

/// A rank that hasn't reached the call reports the last calls that it made.
FailureReport ScheduleTeam::report_on(std::uint64_t call) const noexcept {
  FailureReport report;
  report.call = call;
  report.calls = std::min(call, history_.calls());
  report.first = report.calls > FailureReport::before ? report.calls - FailureReport::before : 1;
  for (std::uint64_t i = 0; i < FailureReport::most_calls; ++i)
    if (const std::uint64_t each = report.first + i; history_.has(each))
      report.signatures[i] = history_.signature_of(each).word();
  // Calls in flight that the history has dropped.
  const auto add = [&](std::uint64_t number, Signature signature) {
    if (const std::uint64_t i = number - report.first; i < FailureReport::most_calls)
      report.signatures[i] = signature.word();
  };
  for (const Operation* const operation : active_) {
    const Signature signature = operation->args().signature;
    add(operation->call_number, signature);
    if (operation->plan_number != 0)
      add(operation->call_number - 1, Signature::plan_start(operation->plan_number, signature));
  }
  return report;
}

bool ScheduleTeam::check_alarm() noexcept {
  const std::uint64_t alarm = failure_.alarm_word();
  if (alarm == 0) [[likely]]
    return false;
  fail_by_alarm(TeamFailure::Alarm::of(alarm));
  return true;
}

/// Fails the team with the alarm's call, so that all ranks report the same calls if their history contains them.
void ScheduleTeam::fail_by_alarm(const TeamFailure::Alarm& alarm) noexcept {
  fail_locked(Status::failure(Code::timeout, rank_failed, arena_.world(alarm.rank)), alarm.call, alarm);
}

Status ScheduleTeam::check_owner(int owner) noexcept {
  const auto guard = hold();
  if (failure_.ok() && !check_alarm())
    if (const TeamFailure::Alarm alarm = failure_.published_by(owner); alarm.rank >= 0) fail_by_alarm(alarm);
  return failure_.status();
}

Status ScheduleTeam::explain() noexcept {
  {
    const auto guard = hold();
    unshare();  // nothing is in flight, so from now on only the owner accesses the state
  }
  return failure_.explain();
}

bool ScheduleTeam::has_unreported_mismatch(int world_rank) noexcept {
  const auto guard = hold();
  if (closes_) return false;
  if (failure_.ok()) check_alarm();
  const int rank = team_.rank_of(world_rank);
  return rank >= 0 && failure_.has_mismatch_from(rank);
}

bool ScheduleTeam::is_closing(int world_rank) noexcept {
  Ledger* const ledger = team_.is_world() && !closes_ ? arena_.ledger_of(world_rank) : nullptr;
  if (ledger == nullptr) return false;
  const Signature last = ledger->signature_of(ledger->calls());
  return last.is_setup() && last.setup() == base::SetupCall::runtime_close;
}

/// Called when the Runtime closes. Sends no report: all ranks close, or detect this rank's death.
void ScheduleTeam::end() noexcept {
  const auto alarm = TeamFailure::Alarm::of(failure_.alarm_word());  // it may have been raised since the last check
  const FailureReport report = report_on(alarm.rank < 0 ? oldest_call() : alarm.call);
  failure_.record(alarm.rank < 0 ? Status::failure(Code::closed, "the runtime was closed")
                                 : Status::failure(Code::timeout, rank_failed, arena_.world(alarm.rank)),
                  report, alarm);
  for (Operation* const operation : active_) operation->abandon();
  unshare();
}

// ---- requests

/// Three failures affect only one call, and the team stays usable: mismatched counts of an alltoallv, a wrong `largest`
/// of one, and an output that couldn't be copied to this rank's device. Called outside of the waiter's loop over its
/// progress sources.
Status ScheduleTeam::outcome_of(Operation& operation, std::uint64_t ticket) noexcept {
  count_mismatch_ = operation.count_mismatch_ticket == ticket ? &operation : nullptr;
  wrong_largest_ = operation.wrong_largest_ticket == ticket ? &operation : nullptr;
  if (count_mismatch_ != nullptr) return Status::failure(Code::mismatch, "counts don't match");
  if (wrong_largest_ != nullptr) return Status::failure(Code::invalid_argument, "`largest` is wrong");
  return operation.lost_ticket == ticket ? operation.lost : Status{};
}

void ScheduleTeam::expired(std::uint64_t ticket) noexcept {
  const auto guard = hold();
  const Operation& operation = operation_of(ticket);
  fail_locked(Status::failure(Code::timeout, "the deadline passed", arena_.world(awaited_by(operation))),
              operation.call_number);
}

Status ScheduleTeam::abort_dropped(const Operation& operation, const char* call) noexcept {
  try {
    const std::string team = team_.is_world() ? "the world" : fmt::format("a team, as its rank {}", rank_);
    return rma::abort_dropped(fabric_,
                              fmt::format("{} on {} of {} ranks", operation.args().signature.text(), team, size_));
  } catch (const std::exception&) {  // no memory for the text
    return rma::abort_dropped(fabric_, call);
  }
}

void ScheduleTeam::throw_failure(const Status& status, const char* operation) {
  if (const Operation* const met = std::exchange(count_mismatch_, nullptr))
    throw count_mismatch_error(team_, operation, met->count_mismatch, met->my_count_mismatch());
  if (const Operation* const met = std::exchange(wrong_largest_, nullptr))
    throw wrong_largest_error(team_, operation, met->counts());
  throw_error(status, operation);
}

void ScheduleTeam::throw_error(const Status& status, const char* operation, std::size_t bytes) {
  if (different_largest_) throw wrong_largest_error(team_, operation, *different_largest_);
  const Status cause = failure().ok() ? status : explain();
  if (cause.code != Code::mismatch)
    if (progress::TicketSource* const other = fabric_.tickets.unheard_mismatch(cause.peer)) try {
        other->throw_failure(cause, operation);
      } catch (const Error& error) {
        ErrorDetail detail = error.detail();
        detail.message = "in another team, before: " + detail.message;
        throw Error(std::move(detail));
      }
  throw_failure_error(team_, failure_, cause, operation, bytes);
}

}  // namespace hmc::collectives
