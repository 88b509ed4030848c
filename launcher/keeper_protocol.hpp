// The messages between hmcrun and its keeper, over a SOCK_SEQPACKET pair.
#pragma once

#include <sys/types.h>

namespace hmc::launcher {

struct KeeperRequest {
  enum class What : int { launch, signal, kill_all };
  What what;
  int signal;
  char store[128];  ///< launch: HMC_STORE, with its final zero
};

struct KeeperEvent {
  enum class What : int {
    started,       ///< rank, pid
    spawn_failed,  ///< rank, value: errno, step
    ended,         ///< rank, pid, value: the wait status
    gone,          ///< the keeper has no more descendants; value: the number of processes that survived KILL
    lost,          ///< never sent: means that the keeper itself has died
  };
  What what;
  int rank;
  pid_t pid;
  int value;
  char step[32];
};

}  // namespace hmc::launcher
