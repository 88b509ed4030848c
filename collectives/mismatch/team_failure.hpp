// TeamFailure: a team's failure on one rank: how it reaches all ranks, and how each rank determines the cause.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/mismatch/failure_area.hpp"
#include "collectives/mismatch/history.hpp"
#include "collectives/mismatch/relay.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

/// The first rank that fails writes its report, and raises its partners' alarms (see Relay). A rank that sees the alarm
/// does the same. So a rank that waits for a peer which will never arrive fails at once, wherever in the algorithm both
/// are. Deaths and aborts reach all ranks by the node page, so no report is made for them.
///
/// Threads: one at a time. The team's schedules lock it.
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
  /// The failure that a rank of this node has published; rank -1: none. For a rank whose alarm may be under way.
  Alarm published_by(int rank) const noexcept;
  Alarm published_on_node() const noexcept;

  /// Stores the failure; later ones are ignored. `report`: its signatures around `report.call`. `alarm`: the alarm that
  /// this rank got; rank -1: none.
  void record(const base::Status& status, const FailureReport& report, const Alarm& alarm) noexcept;
  /// Makes the recorded failure known.
  void publish() noexcept;
  /// The team is being closed: peers may have freed their parts.
  void stop_reading() noexcept { reads_peers_ = false; }

  /// Takes the summaries that have arrived, and sends those that are due. While is_relaying(), call it often.
  void relay() noexcept;
  /// Other ranks may need this rank's help to get all reports.
  bool is_relaying() const noexcept { return area_.slots() > 0 && !explained_ && relay_.is_active(base::now_ns()); }

  /// Another rank reported the failure first.
  bool was_told() const noexcept { return alarm_.rank >= 0; }
  /// The team failed in a call before this rank's latest call; valid after explain().
  bool failed_before() const noexcept;
  /// True if this rank can explain the failure as a mismatch by the report of the rank, before explain().
  bool has_mismatch_from(int rank) noexcept;
  /// Waits briefly for the other ranks' reports, and determines the cause.
  base::Status explain() noexcept;
  /// A rank's part in the failed call; valid after explain().
  PeerReport peer_report_of(int rank) const noexcept;

 private:
  int world(int rank) const noexcept { return rank < 0 ? -1 : team_.world_rank(rank); }
  bool waited_in_vain() const noexcept { return status_.code == Code::timeout || status_.code == Code::mismatch; }
  base::Status hear_others() noexcept;
  void read_ledgers() noexcept;
  base::Status settle() noexcept;

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
  FailureSummary resolved_;  // relay_'s summary, by settle()
  std::vector<int> unread_;  // ranks of this node without a report
  std::vector<bool> taken_;  // by slot
  struct Sent {
    FailureSummary summary;
    int peer = -1;
    std::uint64_t ticket = 0;
  };
  std::vector<std::unique_ptr<Sent>> sent_;  // sources of puts
};

}  // namespace hmc::collectives
