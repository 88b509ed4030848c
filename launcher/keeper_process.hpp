// KeeperProcess: the keeper's main loop. spawn: starts a rank, which can't outlive the keeper.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <span>
#include <string>
#include <vector>

#include "launcher/keeper.hpp"
#include "launcher/plan.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/topology/cpu_layout.hpp"

namespace hmc::launcher {

struct SpawnRequest {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int in = -1, out = -1, err = -1;         ///< -1: inherited
  const topology::CpuSet* cpus = nullptr;  ///< null or empty: not bound
  const char* folder = nullptr;            ///< null: this process's
  const Inherited* inherited = nullptr;
};

struct SpawnResult {
  pid_t pid = -1;
  int error = 0;               ///< errno of the failed call; 0: the program runs
  const char* step = nullptr;  ///< the call that failed, a literal
};

/// The child gets its own process group, so that a signal reaches all processes that it starts. The kernel kills the
/// child when the calling thread exits. Must be called only in a process with one thread, because the child shares its
/// memory until exec.
SpawnResult spawn(const SpawnRequest& request) noexcept;

/// Gives this process the name of a keeper, in the memory of main's argv too.
void rename_process(std::span<char> title_area) noexcept;

/// One thread; never returns into hmcrun's code.
class KeeperProcess {
 public:
  KeeperProcess(const JobPlan& plan, JobStreams& streams, const Inherited& inherited, base::UniqueFd socket);
  [[noreturn]] void run() noexcept;

 private:
  enum class Stage {
    waiting,  ///< no rank was started yet
    running,
    ending,   ///< the remaining descendants were sent TERM, and have until `until_` to exit
    killing,  ///< the remaining descendants are sent KILL, repeatedly, until none is left
  };

  void step();
  int wait_ms() const noexcept;
  void handle_messages();
  void launch(const char* store, int first, int last);
  SpawnResult launch_one(int rank, const char* store);
  void signal_ranks(int signal) noexcept;
  /// Reaps all children that have exited. Returns true if no child is left.
  bool reap();
  void begin_ending();
  void begin_killing() noexcept;
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
