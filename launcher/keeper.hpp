// Keeper: the process between hmcrun and the ranks that sees to it that nobody is left behind.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/keeper_protocol.hpp"
#include "launcher/plan.hpp"
#include "launcher/spawn.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// The ranks are the keeper's children, not hmcrun's. It is in a process group of its own, adopts
/// what the ranks' processes orphan, and lives until nothing is below it. So:
///  - hmcrun is killed: the keeper sees its socket end, and ends all;
///  - the keeper is killed: the kernel kills the ranks (PR_SET_PDEATHSIG), and hmcrun, which adopts
///    too, kills the rest (end_orphans);
///  - both at once: the kernel kills the ranks.
/// The parent's own wait(2) can't take a recycled process number for a rank, so no pidfd is needed.
/// It sleeps in poll, has one thread, and is hmcrun's image: forked before any thread was started.
class Keeper {
 public:
  /// Forks. `title_area` is the memory of main's argv, which in the keeper becomes its name, so that
  /// "pkill -f hmcrun" doesn't find it. Throws Failure.
  static Keeper start(const Plan& plan, JobStreams& streams, const Inherited& inherited, std::span<char> title_area);

  /// Starts the ranks, in order; stops at the first that can't be.
  void launch(std::string_view store);
  /// To the process group of every rank that still runs.
  void signal(int signal) noexcept;
  /// Kills all that is below, at once.
  void kill_all() noexcept;

  int fd() const noexcept { return socket_.get(); }
  /// The next event; nothing if there is none now.
  std::optional<KeeperEvent> next();

  /// After `gone`, when it ends at once: a container's first process may reap nothing for us.
  void reap() noexcept;
  /// After the keeper itself was killed: kills and reaps what this process adopted.
  void end_orphans();

 private:
  Keeper(base::UniqueFd socket, pid_t pid) noexcept : socket_(std::move(socket)), pid_(pid) {}
  bool send(const KeeperRequest& request) noexcept;

  base::UniqueFd socket_;
  pid_t pid_;
};

}  // namespace hmc::launcher
