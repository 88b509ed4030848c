// Failures that a team's schedules detect. TeamFailure propagates and explains them.
#include <algorithm>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

using base::Status;

/// A rank may report a failure and then exit. A slow rank may detect that death before it checks the alarm. The alarm
/// was raised first and takes precedence. It may still be in flight, so the wires make progress first. It may not have
/// been relayed to this rank yet, so the reports of this node's ranks are checked too.
const Status& ScheduleTeam::give_up(const Status& status, std::uint64_t call,
                                    const TeamFailure::Alarm& alarm) noexcept {
  if (!failure_.ok()) return failure_.status();
  const bool is_of_the_job = TeamFailure::is_of_the_job(status);
  if (is_of_the_job) {
    for (const auto& wire : fabric_.wires) wire->progress();
    if (hear_alarm()) return failure_.status();
    if (const TeamFailure::Alarm published = failure_.published_on_node(); published.rank >= 0) {
      heard(published);
      return failure_.status();
    }
  }
  failure_.record(status, report_on(call != 0 ? call : call_in_question()), alarm);
  for (Operation* const operation : active_) operation->abandon();
  if (!is_of_the_job) failure_.publish();
  return failure_.status();
}

void ScheduleTeam::fail(const Status& status) noexcept {
  const auto guard = hold();
  give_up(status);
}

Status ScheduleTeam::failure() const noexcept {
  const auto guard = hold();
  return failure_.status();
}

bool ScheduleTeam::was_told() const noexcept {
  const auto guard = hold();
  return failure_.was_told();
}

bool ScheduleTeam::failed_before() const noexcept {
  const auto guard = hold();
  return failure_.failed_before();
}

/// The current blocking call, or the oldest call in flight.
std::uint64_t ScheduleTeam::call_in_question() const noexcept {
  for (const Operation* const operation : active_)
    if (operation->outcome.code == Code::in_progress) return operation->call_number;
  return history_.calls();
}

/// For a call in flight that the history has dropped, returns the signature of its operation.
Signature ScheduleTeam::signature_at(std::uint64_t call) const noexcept {
  if (history_.has(call)) return history_.signature_of(call);
  for (const Operation* const operation : active_)
    if (operation->call_number == call) return operation->args().signature;
  return {};
}

/// A rank that hasn't reached the call reports the last calls that it made.
FailureReport ScheduleTeam::report_on(std::uint64_t call) const noexcept {
  FailureReport report;
  report.call = call;
  report.calls = std::min(call, history_.calls());
  report.first = report.calls > FailureReport::before ? report.calls - FailureReport::before : 1;
  for (std::uint64_t i = 0; i < FailureReport::told; ++i) report.signatures[i] = signature_at(report.first + i).word();
  return report;
}

bool ScheduleTeam::hear_alarm() noexcept {
  const std::uint64_t alarm = failure_.alarm_word();
  if (alarm == 0) [[likely]]
    return false;
  heard(TeamFailure::Alarm::of(alarm));
  return true;
}

/// Fails the team with the alarm's call, so that all ranks report the same calls if their history contains them.
void ScheduleTeam::heard(const TeamFailure::Alarm& alarm) noexcept {
  give_up(Status::failure(Code::timeout, gave_up, arena_.world(alarm.rank)), alarm.call, alarm);
}

Status ScheduleTeam::check_owner(int owner) noexcept {
  const auto guard = hold();
  if (failure_.ok() && !hear_alarm())
    if (const TeamFailure::Alarm alarm = failure_.published_by(owner); alarm.rank >= 0) heard(alarm);
  return failure_.status();
}

Status ScheduleTeam::explain() noexcept {
  {
    const auto guard = hold();
    unshare();  // nothing is in flight, so from now on only the owner accesses the state
  }
  return failure_.explain();
}

}  // namespace hmc::collectives
