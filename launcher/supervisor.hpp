// Supervisor: watches a running job until its end, and determines the exit status.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/tcp/uncaught.hpp"
#include "launcher/control.hpp"
#include "launcher/keeper.hpp"
#include "launcher/mailbox.hpp"
#include "launcher/plan.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/poller.hpp"

namespace hmc::launcher {

/// hmcrun's main thread. Its poller waits for keeper, signals, mailbox, terminal and timers. The first cause of the
/// job's end determines the exit status.
class Supervisor {
 public:
  /// `poller`: the mailbox's. `signals`: a signalfd. `terminal_feed`: see TerminalInput. `output_pumped`: an
  /// output_done will be posted.
  Supervisor(const JobPlan& plan, Keeper& keeper, ControlPlane& control, base::Poller& poller, Mailbox& mailbox,
             int signals, base::UniqueFd terminal_feed, bool output_pumped, bootstrap::UncaughtErrors uncaught);
  /// The exit status.
  int run();
  /// True after a second INT: don't wait for a slow reader of hmcrun's output.
  bool skips_output() const noexcept { return skips_output_; }

 private:
  enum class State { waiting, running, ended };
  struct Rank {
    State state = State::waiting;
    pid_t pid = 0;
    int wait_status = 0;
    int cause = -1;  ///< the rank whose failure it has named as the cause of its own
  };

  void handle_keeper();
  void handle_messages();
  void handle(const SupervisorMessage& message);
  void handle_signals();
  void handle_signal(int signal);

  void rank_ended(const KeeperEvent& event);
  bool may_be_a_consequence(int rank, const base::Status& notice);
  void set_cause_of(pid_t pid, pid_t cause);
  void set_cause(int rank);
  std::string no_replacement_of(int rank) const;
  void go_on_without(int rank, bool starts_again);
  int status_after_losses() const;
  bool others_run() const;
  void spawn_failed(const KeeperEvent& event);
  void timed_out();
  void take_uncaught();
  void print_uncaught();

  enum class Term { now, after_the_notice };
  /// Ends the job with this status: TERM, and KILL 5 s later.
  void end_job(int status, Term term);
  void send_term();
  std::string describe_ranks() const;
  std::string name_of(int rank) const;
  std::string describe(int rank) const;
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  const JobPlan& plan_;
  Keeper& keeper_;
  ControlPlane& control_;
  base::Poller& poller_;
  Mailbox& mailbox_;
  int signals_;
  TerminalInput input_;
  bootstrap::UncaughtErrors uncaught_;
  std::vector<bootstrap::UncaughtError> unprinted_;

  std::vector<Rank> ranks_;
  std::optional<int> status_;  ///< the first cause
  int possible_cause_ = -1;    ///< a failed rank, whose failure may be a consequence
  int suspect_ = -1;           ///< the failure is a consequence of the end of this rank, or (-1) of an abort
  // --keep-going
  struct Loss {
    int rank;
    int wait_status;
  };
  std::vector<Loss> lost_;  ///< the processes of ranks that failed, in this order
  int respawned_ = 0;
  bool has_member_ = true;    ///< false: no process is left that could call Team::grow
  bool some_closed_ = false;  ///< a rank has closed the job and ended with 0
  int interrupts_ = 0;
  bool gone_ = false;
  bool output_done_;
  bool asked_to_end_ = false;  ///< a signal or --timeout ends the job, not a rank
  bool skips_output_ = false;
  base::Poller::Timer job_, cause_, term_, kill_, drain_;
};

}  // namespace hmc::launcher
