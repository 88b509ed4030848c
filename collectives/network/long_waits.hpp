// LongWaits: detects mismatches in a long wait of a team, before the deadline.
#pragma once

#include <cstdint>

#include "runtime/base/wait.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

class ScheduleTeam;

/// Checks for failures of other ranks and teams, compares histories, and sends questions to the awaited rank. Both
/// engines pass it to their waits.
class LongWaits final : public base::Watch {
 public:
  explicit LongWaits(ScheduleTeam& schedules) : team_(schedules) {}

  /// Called during a long wait. The owner's thread.
  base::Status look(const base::WaitNote& note, std::int64_t now) noexcept override;
  /// A wait for a request has no awaited rank, and a test doesn't call look(). For both, the rank sends questions to
  /// the awaited rank of the oldest operation in flight. Requires the lock.
  void check_started(std::int64_t now) noexcept;

 private:
  /// The questions of one kind of wait.
  struct Asker {
    std::int64_t checked_at = 0;
    int peer = -1;
    std::uint64_t question = 0;
    std::int64_t next = 0;      // time of the next question
    std::int64_t interval = 0;  // before it
  };
  /// The awaited rank, if it has failed in another team.
  struct FailedElsewhere {
    std::int64_t checked_at = 0;
    int world_rank = -1;
    std::uint64_t call = 0;        // the waiting call, if it needs all ranks; 0: none
    std::uint64_t rank_calls = 0;  // number of calls that rank has made
    std::int64_t since = 0;
  };
  void check(Asker& asker, int peer, std::uint64_t call, std::uint64_t history, std::int64_t now) noexcept;
  void send_question(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept;
  void receive_questions() noexcept;
  int rank_to_give_up_on(int awaited, std::uint64_t call, std::int64_t now) noexcept;
  int rank_failed_elsewhere(int awaited, std::uint64_t call) noexcept;
  const base::ActivityLine* line_of(int world_rank) const noexcept;

  ScheduleTeam& team_;
  Asker blocking_;
  Asker started_;
  FailedElsewhere elsewhere_;
};

}  // namespace hmc::collectives
