// How a team's failure comes to be known to all of its ranks, and what it was.
#include <algorithm>
#include <chrono>

#include "collectives/execute/schedule_team.hpp"
#include "runtime/window/begin.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

bool waited_in_vain(const Report& report) noexcept {
  const auto code = static_cast<Code>(report.code);
  return code == Code::timeout || code == Code::mismatch;
}

}  // namespace

/// Whoever gives up first writes its report to all others and raises their alarm; who sees the alarm does the
/// same. So a rank that waits for someone who will never come learns of it at once, wherever in the algorithm
/// the two are. Deaths and aborts are known to all by the node's page: for them nothing is sent; whatever else a
/// rank fails of is told.
const Status& ScheduleTeam::fail(const Status& status) noexcept {
  if (!failure_.ok()) return failure_;
  failure_ = status;
  for (Operation* const operation : active_) operation->abandon();
  if (status.code != Code::peer_failed && status.code != Code::aborted) send_report();
  return failure_;
}

void ScheduleTeam::send_report() noexcept {
  report_.code = static_cast<std::uint64_t>(failure_.code);
  report_.peer = static_cast<std::uint64_t>(failure_.peer);
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const std::uint64_t offset = Arena::report_offset(rank_);
    std::uint64_t ticket = 0;  // report_ stays as it is from now on
    Status sent = window::begin_put_signal(arena_.window(), peer, offset + sizeof report_.given, &report_.code,
                                           sizeof report_ - sizeof report_.given, offset, 1, ticket);
    if (sent.ok())
      sent = window::begin_put_signal(arena_.window(), peer, 0, nullptr, 0, Arena::alarm_offset,
                                      static_cast<std::uint64_t>(rank_) + 1, ticket);
    static_cast<void>(sent);  // a peer that can't be reached has its own failure
  }
}

Status ScheduleTeam::explain() noexcept {
  if (explained_ || (failure_.code != Code::timeout && failure_.code != Code::mismatch)) return failure_;
  explained_ = true;
  // Ranks that are in a call answer at once.
  const auto all_heard = [&]() noexcept {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_ && arena_.word(Arena::report_offset(rank)) == 0) return false;
    return true;
  };
  constexpr std::chrono::milliseconds moment{250};
  const base::WaitNote note{base::Activity::wait_request, failure_.peer};
  const Status waited =
      fabric_.waiter.until(note, all_heard, std::min<std::chrono::nanoseconds>(moment, fabric_.timeout));
  if (waited.code == Code::peer_failed || waited.code == Code::aborted) return failure_ = waited;

  int missing = -1;
  int cause = -1;  // who failed of something else than waiting
  int other = failure_.code == Code::mismatch ? team_.rank_of(failure_.peer) : -1;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const bool heard = arena_.word(Arena::report_offset(rank)) != 0;
    if (!heard && missing < 0) missing = rank;
    if (heard && cause < 0 && !waited_in_vain(arena_.report(rank))) cause = rank;
    const std::uint64_t number = heard ? Report::conflict(report_, arena_.report(rank)) : 0;
    if (number == 0 || (conflict_ != 0 && other != rank)) continue;
    conflict_ = number;
    other = rank;
  }
  if (conflict_ != 0 || failure_.code == Code::mismatch) {
    failure_ = Status::failure(Code::mismatch, "ranks called different collectives", arena_.world(other));
  } else if (cause >= 0) {
    const auto code = static_cast<Code>(arena_.report(cause).code);
    failure_ = Status::failure(code, "a rank of the team gave up the call", arena_.world(cause));
  } else if (missing >= 0) {
    failure_ = Status::failure(Code::timeout, "the deadline passed", arena_.world(missing));
  }
  return failure_;
}

Status ScheduleTeam::explain_other(const Status& status) noexcept {
  fail(status);
  const Status explained = explain();
  return explained.code == Code::mismatch ? explained : status;
}

Signature ScheduleTeam::signature_of(int rank) const noexcept {
  const std::uint64_t number = conflict_ != 0 ? conflict_ : report_.latest;
  return (rank == rank_ ? report_ : arena_.report(rank)).signature_of(number);
}

}  // namespace hmc::collectives
