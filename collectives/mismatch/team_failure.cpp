#include "collectives/mismatch/team_failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "runtime/rma/begin.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

using base::Status;

TeamFailure::TeamFailure(rma::TeamCore& team, const rma::WindowCore& window, const FailureArea& area, History& history)
    : team_(team),
      fabric_(team.fabric()),
      window_(window),
      area_(area),
      history_(history),
      rank_(team.rank()),
      size_(team.size()) {}

TeamFailure::~TeamFailure() {
  for (const auto& sent : sent_)
    if (sent->ticket != 0) rma::abandon(window_, sent->peer, sent->ticket);
}

TeamFailure::Alarm TeamFailure::published_by(int rank) const noexcept {
  const FailureReport* const report = reads_peers_ && rank != rank_ ? area_.report_of(window_, rank) : nullptr;
  return report != nullptr ? Alarm{rank, report->call} : Alarm{};
}

TeamFailure::Alarm TeamFailure::published_on_node() const noexcept {
  for (int rank = 0; rank < size_; ++rank)
    if (const Alarm alarm = published_by(rank); alarm.rank >= 0) return alarm;
  return {};
}

void TeamFailure::record(const Status& status, const FailureReport& report, const Alarm& alarm) noexcept {
  if (!status_.ok()) return;
  status_ = status;
  alarm_ = alarm;
  report_ = report;
  report_.code = static_cast<std::uint64_t>(status.code);
  report_.peer = static_cast<std::uint64_t>(status.peer);
  history_.is_over.store(true, std::memory_order_relaxed);
  if (is_of_the_job(status)) return;
  try {
    taken_.resize(static_cast<std::size_t>(area_.slots()));
    sent_.reserve(taken_.size());
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_ && window_.peers()[static_cast<std::size_t>(rank)].direct != nullptr) unread_.push_back(rank);
    relay_.begin(rank_, size_, FailureSummary(rank_, report_, false), base::now_ns());
  } catch (const std::bad_alloc&) {
    // This rank's error names no calls. Other ranks get the reports over other paths.
  }
}

void TeamFailure::publish() noexcept {
  FailureReport& mine = area_.report(window_.data());
  constexpr std::size_t after = offsetof(FailureReport, code);
  std::memcpy(&mine.code, &report_.code, sizeof report_ - after);
  // Release: pairs with the acquire in FailureArea::report_of.
  std::atomic_ref(mine.valid).store(1, std::memory_order_release);
  // Pairs with the fence in DirectTeam::read: a peer that reads a reused buffer also sees this report.
  base::full_fence();
  if (fabric_.waiter.someone_sleeps())
    for (const int rank : unread_)
      fabric_.waiter.ring_sleeper(window_.peers()[static_cast<std::size_t>(rank)].local_index);
  const Alarm alarm = received_alarm() ? alarm_ : Alarm{rank_, report_.call};
  for (int k = 0; k < Relay::partners(size_); ++k) {
    const int peer = Relay::partner(rank_, size_, k);
    std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
    const Status sent =
        rma::begin_notify(window_, peer, 0, nullptr, 0, FailureArea::alarm_offset, alarm.word(), ticket);
    static_cast<void>(sent);  // a peer that can't be reached has its own failure
    rma::nudge(window_, peer);
  }
  relay();
}

/// Ranks of one node read each other's reports in place and need no summaries.
void TeamFailure::relay() noexcept {
  if (!relay_.has_begun()) return;
  if (reads_peers_) {
    std::erase_if(unread_, [&](int rank) {
      const FailureReport* const report = area_.report_of(window_, rank);
      if (report != nullptr) relay_.add(rank, FailureSummary(rank, *report, false));
      return report != nullptr;
    });
  }
  for (int slot = 0; slot < area_.slots(); ++slot) {
    const auto index = static_cast<std::size_t>(slot);
    if (taken_[index]) continue;
    std::byte* const at = window_.data() + area_.slot_offset(slot);
    // Acquire: pairs with put_signal's release; the summary is visible. It is written once.
    if (std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).load(std::memory_order_acquire) == 0) continue;
    taken_[index] = true;
    FailureSummary received;
    std::memcpy(&received, at + FailureArea::summary_in_slot, sizeof received);
    relay_.take(received);
  }
  if (area_.slots() == 0) return;
  const std::int64_t now = base::now_ns();
  for (Relay::Message message; relay_.next(now, message);) try {
      sent_.push_back(std::make_unique<Sent>(Sent{relay_.summary(), message.peer, 0}));
      Sent& sent = *sent_.back();
      const std::uint64_t to = area_.slot_offset(message.slot);
      const Status begun = rma::begin_notify(window_, message.peer, to + FailureArea::summary_in_slot, &sent.summary,
                                             sizeof sent.summary, to, 1, sent.ticket);
      if (!begun.ok()) sent.ticket = 0;  // a peer that can't be reached has its own failure
      rma::nudge(window_, message.peer);
    } catch (const std::bad_alloc&) {
      return;  // reports arrive over other paths
    }
}

bool TeamFailure::failed_before() const noexcept {
  const std::uint64_t call = resolved_.conflict() != 0 ? resolved_.conflict() : received_alarm() ? alarm_.call : 0;
  return call != 0 && call < history_.calls();
}

bool TeamFailure::has_mismatch_from(int rank) noexcept {
  if (ok() || explained_ || !reads_peers_ || !is_timeout_or_mismatch()) return false;
  relay();
  return relay_.has_report_of(rank) && determine_cause().code == Code::mismatch;
}

Status TeamFailure::explain() noexcept {
  if (explained_ || !is_timeout_or_mismatch()) return status_;
  explained_ = true;
  const Status died = wait_for_reports();
  read_ledgers();
  const Status settled = determine_cause();
  status_ = died.ok() || settled.code == Code::mismatch ? settled : died;
  return status_;
}

/// Waits for the other ranks' reports. Ranks in a call send theirs at once. Returns a death or an abort during the
/// wait. It doesn't end the wait: the failure came first, and a rank that has reported a mismatch and exited is a
/// consequence.
Status TeamFailure::wait_for_reports() noexcept {
  int dead = -1;
  const auto all_received = [&]() noexcept {
    relay();
    return !relay_.has_begun() || relay_.is_complete(dead);
  };
  constexpr std::chrono::nanoseconds moment{Relay::active_ns};
  const base::WaitNote note{base::Activity::wait_request, status_.peer};
  const std::int64_t limit = base::now_ns() + std::min<std::chrono::nanoseconds>(moment, fabric_.timeout).count();
  Status died;
  for (;;) {
    const Status waited = fabric_.waiter.until(note, all_received, std::chrono::nanoseconds(limit - base::now_ns()));
    if (!is_of_the_job(waited)) return died;
    died = waited;
    dead = team_.rank_of(waited.peer);
    if (base::now_ns() >= limit) return died;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the waiter doesn't sleep in an aborted job
  }
}

/// Adds the ledgers of ranks without a report. Such a rank is usually in no call: it has only sent, and computes now.
void TeamFailure::read_ledgers() noexcept {
  if (!reads_peers_ || !relay_.has_begun()) return;
  for (const int rank : unread_) {
    Ledger* const ledger = area_.ledger_of(window_, rank);
    if (relay_.has_report_of(rank)) continue;
    FailureReport read;
    read.code = static_cast<std::uint64_t>(Code::in_progress);
    read.call = read.calls = ledger->calls();
    read.first = report_.first;
    for (std::uint64_t i = 0; i < FailureReport::most_calls; ++i)
      read.signatures[i] = ledger->signature_of(read.first + i).word();
    relay_.add_read(FailureSummary(rank, read, true));
  }
}

/// Determines the cause from the reports so far.
Status TeamFailure::determine_cause() noexcept {
  if (!relay_.has_begun()) return status_;
  resolved_ = relay_.summary();
  const int witness = resolved_.witness();
  if (resolved_.conflict() != 0 || witness >= 0) {
    int other = status_.code == Code::mismatch ? team_.rank_of(status_.peer) : -1;
    if (resolved_.conflict() == 0) resolved_.resolve(resolved_.witness_call());
    const PeerReport mine = resolved_.part_of(rank_, world(rank_), true);
    if (const int differs = resolved_.differing_from(mine.signature); differs >= 0 && other < 0) other = differs;
    if (other < 0) other = witness;
    return Status::failure(Code::mismatch, "ranks called different collectives", world(other));
  }
  if (const int cause = resolved_.cause(); cause >= 0)
    return Status::failure(resolved_.cause_code(), "a rank of the team gave up the call", world(cause));
  const int missing = relay_.first_missing();
  return missing < 0 ? status_ : Status::failure(Code::timeout, "the deadline passed", world(missing));
}

PeerReport TeamFailure::peer_report_of(int rank) const noexcept {
  return resolved_.part_of(rank, world(rank), relay_.has_report_of(rank));
}

namespace {

/// The word for ranks in error texts. In a team other than the world it says that the numbers are world ranks.
const char* rank_word(const rma::TeamCore& team) { return team.is_world() ? "rank" : "world rank"; }

/// The awaited rank, and the team's ranks on this node.
std::vector<int> to_describe(const rma::TeamCore& team, int awaited) {
  std::vector<int> world_ranks;
  for (const int member : team.local_ranks()) world_ranks.push_back(team.world_rank(member));
  if (awaited >= 0 && std::find(world_ranks.begin(), world_ranks.end(), awaited) == world_ranks.end())
    world_ranks.push_back(awaited);
  return world_ranks;
}

std::string text_of(const PeerReport& report, bool one) {
  switch (report.part) {
    case PeerReport::Part::called: return "called " + report.signature.text();
    case PeerReport::Part::absent: return one ? "hasn't come so far" : "haven't come so far";
    case PeerReport::Part::otherwise:
      return one ? "called something else and is in no call now" : "called something else and are in no call now";
    case PeerReport::Part::unlisted: return "called one of these or something else";
    case PeerReport::Part::silent: break;
  }
  return one ? "hasn't said what it called" : "haven't said what they called";
}

bool has_called_close(const rma::TeamCore& team, const TeamFailure& failure, int world_rank) {
  const int rank = team.rank_of(world_rank);
  if (rank < 0) return false;
  const PeerReport report = failure.peer_report_of(rank);
  return report.part == PeerReport::Part::called && report.signature.is_setup() &&
         report.signature.setup() == base::SetupCall::runtime_close;
}

/// "rank 1 called barrier; ranks 0 and 2 called allreduce(...)": each call once, with its ranks.
std::string calls_of_ranks(const rma::TeamCore& team, const TeamFailure& failure) {
  const int size = team.size();
  std::string text;
  std::vector<bool> listed(static_cast<std::size_t>(size));
  std::vector<PeerReport> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(failure.peer_report_of(rank));
  for (int rank = 0; rank < size; ++rank) {
    if (listed[static_cast<std::size_t>(rank)]) continue;
    const PeerReport& report = all[static_cast<std::size_t>(rank)];
    std::vector<int> ranks;
    for (int other = rank; other < size; ++other) {
      if (!(all[static_cast<std::size_t>(other)] == report)) continue;
      listed[static_cast<std::size_t>(other)] = true;
      ranks.push_back(team.world_rank(other));
    }
    constexpr std::size_t most = 16;
    const std::string more = ranks.size() > most ? fmt::format(" and {} more", ranks.size() - most) : "";
    if (ranks.size() > most) ranks.resize(most);
    fmt::format_to(std::back_inserter(text), "{}{}{} {}{} {}", text.empty() ? "" : ", ", rank_word(team),
                   ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), more,
                   text_of(report, ranks.size() == 1 && more.empty()));
  }
  return text;
}

}  // namespace

void throw_failure_error(const rma::TeamCore& team, const TeamFailure& failure, const base::Status& status,
                         const char* operation, std::size_t bytes) {
  const rma::Fabric& fabric = team.fabric();
  if (status.code != Code::mismatch && status.code != Code::timeout)
    rma::throw_status(fabric, status, {operation, status.peer, 0, bytes, bytes > 0});
  ErrorDetail detail;
  detail.code = status.code;
  detail.operation = operation;
  detail.rank = fabric.rank;
  detail.peer = status.peer;
  if (status.code == Code::mismatch) {
    if (fabric.job != nullptr && has_called_close(team, failure, status.peer)) fabric.job->blame(status.peer);
    detail.message = calls_of_ranks(team, failure);
    detail.hint = "every rank of a team calls the same collectives in the same order, with matching arguments";
  } else {
    detail.message = fmt::format("{} {} didn't come before the deadline of {:.3g} s; {}", rank_word(team), status.peer,
                                 std::chrono::duration<double>(fabric.timeout).count(),
                                 rma::what_ranks_are_in(fabric, to_describe(team, status.peer), rank_word(team)));
    detail.hint = "HMC_TIMEOUT_S sets the deadline";
  }
  throw Error(std::move(detail));
}

}  // namespace hmc::collectives
