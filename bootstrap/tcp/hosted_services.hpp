// HostedServices: the parts of the control plane that a rank's process runs for other ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/secret.hpp"
#include "bootstrap/tcp/store_server.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// Under a launcher: none, unless the node has no agent. By hand: rank 0 runs the store at HMC_STORE and generates a
/// secret if HMC_SECRET isn't set; the first rank of each node runs the node's agent; the other ranks of the node watch
/// that rank's process, because after its death no agent can raise the node's abort word.
class HostedServices {
 public:
  /// Finds the job's secret and starts the store. Throws Error.
  HostedServices(const base::Env& env, base::Deadline deadline);
  ~HostedServices();

  const Secret& secret() const noexcept { return secret_; }
  /// Connects to the node's agent. If there is none, this process runs it. Throws Error.
  base::UniqueFd reach_agent(const base::Env& env, base::Deadline deadline);
  /// After the rank has joined. `agent_pid`: the agent's process.
  void watch_agent(int agent_pid, const std::vector<RankFacts>& facts, const std::vector<int>& members,
                   const base::NodePage& page);
  /// From here on the process that runs the agent may exit.
  void stop_watching();

  /// This process's rank ends without a goodbye: notifies the ranks that use its agent.
  void report_death(int rank, base::Deadline deadline);
  /// Ends the services when all ranks that use them have sent their goodbyes, at the latest at the deadline.
  void end(base::Deadline deadline);

 private:
  class Watcher;
  class LocalSecret;
  class ProcessWatch;

  bool by_hand_;
  Secret secret_;
  std::unique_ptr<LocalSecret> local_secret_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<ProcessWatch> watch_;
};

}  // namespace hmc::bootstrap
