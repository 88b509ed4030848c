// KeeperProcess: the keeper's main loop.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/keeper_protocol.hpp"
#include "launcher/plan.hpp"
#include "launcher/spawn.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// One thread; never returns into hmcrun's code.
class KeeperProcess {
 public:
  KeeperProcess(const JobPlan& plan, JobStreams& streams, const Inherited& inherited, base::UniqueFd socket,
                std::span<char> title_area);
  [[noreturn]] void run() noexcept;

 private:
  enum class Stage {
    waiting,  ///< no rank was started yet
    running,
    ending,   ///< the remaining descendants were sent TERM, and have until `until_` to exit
    killing,  ///< the remaining descendants are sent KILL, repeatedly, until none is left
  };

  void step();
  int poll_ms() const noexcept;
  void handle_messages();
  void handle(const KeeperRequest& request);
  void launch(const char* store);
  SpawnResult launch_one(int rank, std::vector<char*>& argv, std::vector<char*>& envp);
  void signal_ranks(int signal) noexcept;
  /// Reaps all children that have exited. Returns true if no child is left.
  bool reap();
  void begin_ending();
  void begin_killing() noexcept;
  void kill_children();
  void send(KeeperEvent event) noexcept;

  const JobPlan& plan_;
  JobStreams& streams_;
  const Inherited& inherited_;
  base::UniqueFd socket_;
  base::UniqueFd child_events_;  ///< a signalfd of SIGCHLD
  Stage stage_ = Stage::waiting;
  bool hmcrun_alive_ = true;
  std::vector<pid_t> ranks_;  ///< by rank; 0: not running
  int running_ = 0;
  base::Deadline until_ = base::Deadline::after({});
};

}  // namespace hmc::launcher
