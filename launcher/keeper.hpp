// Keeper: the process between hmcrun and the ranks. It ensures that no process of the job survives the job.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

// ---- messages between hmcrun and its keeper, over a SOCK_SEQPACKET pair

struct KeeperRequest {
  enum class What : int { launch, launch_again, signal, kill_all };
  What what;
  int signal;
  int rank;          ///< launch_again
  char store[1024];  ///< launch, launch_again: HMC_STORE, with its final zero
};

struct KeeperEvent {
  enum class What : int {
    started,       ///< rank, pid
    spawn_failed,  ///< rank, value: errno, step
    ended,         ///< rank, pid, value: the wait status
    gone,          ///< the keeper has no more descendants; value: the number of processes that survived KILL
    lost,          ///< never sent: next() returns it when the keeper itself has died
  };
  What what;
  int rank;
  pid_t pid;
  int value;
  char step[32];
};

/// Inherited settings that hmcrun changes for itself. The ranks get the original values.
struct Inherited {
  sigset_t signal_mask;
  rlimit descriptors;
  static Inherited now() noexcept;
};

/// The ranks are the keeper's children, and the keeper is a child of the guard, a child of hmcrun. Guard and keeper
/// have their own process groups, and are subreapers. The keeper lives until it has no descendants, and the guard as
/// long as the keeper, for which it waits. So:
///  - if hmcrun is killed, the keeper reads end-of-file on its socket and ends all processes;
///  - if the keeper is killed, the kernel kills the ranks (PR_SET_PDEATHSIG), and the guard kills all other processes,
///    whether or not hmcrun was killed too;
///  - if the keeper and the guard are killed, hmcrun, also a subreaper, does the same (end_orphans);
///  - if all three are killed, the kernel kills the ranks.
///
/// A child's pid isn't reused before its parent's wait(2), so no pidfd is needed. The keeper has one thread, which
/// sleeps in poll. Both are forked before hmcrun starts a thread.
class Keeper {
 public:
  /// Forks. `title_area` is the memory of main's argv. The guard overwrites it with its own name, so that
  /// "pkill -f hmcrun" matches neither it nor the keeper. Throws LaunchError.
  static Keeper start(const JobPlan& plan, JobStreams& streams, const Inherited& inherited, std::span<char> title_area);

  /// Starts the ranks in order; stops at the first failure.
  void launch(std::string_view store) { launch(KeeperRequest::What::launch, store, -1); }
  /// Starts a rank that has ended (--respawn).
  void launch_again(std::string_view store, int rank) { launch(KeeperRequest::What::launch_again, store, rank); }
  /// Sends a signal to the process group of every running rank.
  void signal(int signal) noexcept;
  /// Kills all descendants at once.
  void kill_all() noexcept;

  int fd() const noexcept { return socket_.get(); }
  /// The next event, if one is available.
  std::optional<KeeperEvent> next();

  /// Called after `gone`, when the keeper exits at once. In a container the init process may not reap it.
  void reap() noexcept;
  /// After the keeper was killed: waits until the guard has killed the job's processes. If the guard was killed too,
  /// kills and reaps those that this process adopted.
  void end_orphans();

 private:
  Keeper(base::UniqueFd socket, pid_t guard) noexcept : socket_(std::move(socket)), guard_(guard) {}
  void launch(KeeperRequest::What what, std::string_view store, int rank);
  bool send(const KeeperRequest& request) noexcept;

  base::UniqueFd socket_;
  pid_t guard_;
};

/// The direct children of this process, including adopted orphans (PR_SET_CHILD_SUBREAPER).
std::vector<pid_t> children_of_this_process();

}  // namespace hmc::launcher
