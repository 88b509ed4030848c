// HostWatch: detects the end of the process that runs this node's agent.
#pragma once

#include <sys/types.h>

#include <string>
#include <thread>

#include "runtime/base/fd.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::bootstrap {

/// Without a launcher a rank runs the agent. If that rank dies, no agent can raise the node's abort word. So each other
/// rank of the node watches that rank's process by pidfd. Owns a thread that sleeps in poll. Has no effect if the
/// kernel doesn't support pidfd.
class HostWatch {
 public:
  HostWatch(pid_t host, int host_rank, base::NodePage page);
  ~HostWatch();

 private:
  void watch(int host_rank, const base::NodePage& page);
  base::UniqueFd process_;
  base::UniqueFd wake_;
  std::thread thread_;
};

}  // namespace hmc::bootstrap
