// TeamFailure: a team's failure on one rank: propagates it to all ranks, determines the cause, and throws the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/mismatch/failure_area.hpp"
#include "collectives/mismatch/history.hpp"
#include "collectives/mismatch/relay.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// The first rank that fails writes its report and raises its partners' alarms (see Relay). A rank that sees its alarm
/// does the same. So a rank that waits for a peer that never arrives fails at once, at any step of the algorithm.
/// Deaths and aborts reach all ranks through the node page and need no report.
///
/// One thread at a time. ScheduleTeam holds its lock during calls.
class TeamFailure {
 public:
  using Alarm = FailureArea::Alarm;

  TeamFailure(rma::TeamCore& team, const rma::WindowCore& window, const FailureArea& area, History& history);
  TeamFailure(const TeamFailure&) = delete;
  TeamFailure& operator=(const TeamFailure&) = delete;
  ~TeamFailure();

  bool ok() const noexcept { return status_.ok(); }
  const base::Status& status() const noexcept { return status_; }
  static bool is_of_the_job(const base::Status& status) noexcept {
    return status.code == Code::peer_failed || status.code == Code::aborted;
  }

  /// The word of this rank's alarm; 0: none. Acquire: pairs with put_signal's release.
  std::uint64_t alarm_word() const noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(window_.data() + FailureArea::alarm_offset))
        .load(std::memory_order_acquire);
  }
  /// The failure that a rank of this node has published; rank -1: none. Used while the alarm may still be in flight.
  Alarm published_by(int rank) const noexcept;
  Alarm published_on_node() const noexcept;

  /// Stores the first failure; ignores later ones. `report`: the signatures around `report.call`. `alarm`: the alarm
  /// that this rank received; rank -1: none.
  void record(const base::Status& status, const FailureReport& report, const Alarm& alarm) noexcept;
  /// Publishes the recorded failure: writes the report and raises the partners' alarms.
  void publish() noexcept;
  /// The team is being closed: peers may have freed their parts.
  void stop_reading() noexcept { reads_peers_ = false; }

  /// Merges the summaries that have arrived, and sends those that are due. Call it often while is_relaying() is true.
  void relay() noexcept;
  /// Other ranks may need this rank's help to get all reports.
  bool is_relaying() const noexcept { return area_.slots() > 0 && !explained_ && relay_.is_active(base::now_ns()); }

  /// True if this rank received the failure by an alarm from another rank.
  bool received_alarm() const noexcept { return alarm_.rank >= 0; }
  /// The team failed in a call before this rank's latest call; valid after explain().
  bool failed_before() const noexcept;
  /// True if the report of `rank` shows that the failure is a mismatch. Valid before explain().
  bool has_mismatch_from(int rank) noexcept;
  /// Waits briefly for the other ranks' reports, and determines the cause.
  base::Status explain() noexcept;
  /// A rank's part in the failed call; valid after explain().
  PeerReport peer_report_of(int rank) const noexcept;

 private:
  int world(int rank) const noexcept { return rank < 0 ? -1 : team_.world_rank(rank); }
  bool is_timeout_or_mismatch() const noexcept {
    return status_.code == Code::timeout || status_.code == Code::mismatch;
  }
  base::Status wait_for_reports() noexcept;
  void read_ledgers() noexcept;
  base::Status determine_cause() noexcept;

  rma::TeamCore& team_;
  rma::Fabric& fabric_;
  const rma::WindowCore& window_;
  const FailureArea& area_;
  History& history_;
  int rank_;
  int size_;

  base::Status status_;
  Alarm alarm_;
  bool explained_ = false;
  bool reads_peers_ = true;
  FailureReport report_;
  Relay relay_;
  FailureSummary resolved_;  // relay_'s summary, by determine_cause()
  std::vector<int> unread_;  // ranks of this node without a report
  std::vector<bool> taken_;  // by slot
  struct Sent {
    FailureSummary summary;
    int peer = -1;
    std::uint64_t ticket = 0;
  };
  std::vector<std::unique_ptr<Sent>> sent_;  // sources of puts
};

/// `status`: the cause, as determined by TeamFailure::explain(). The error of a timeout names the missing ranks and the
/// ranks' states. The error of a mismatch names each rank's call.
[[noreturn]] void throw_failure_error(const rma::TeamCore& team, const TeamFailure& failure, const base::Status& status,
                                      const char* operation, std::size_t bytes);

}  // namespace hmc::collectives
