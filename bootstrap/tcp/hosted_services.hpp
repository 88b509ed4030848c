// HostedServices: the parts of the control plane that a rank's process runs for other ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/store_server.hpp"
#include "runtime/base/env.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::bootstrap {

/// The services that this process runs for other ranks. Under hmcrun: none, unless the node has no agent. Otherwise:
///  - Rank 0 runs the store. On each node the rank that joins first runs the agent.
///  - The other ranks of the node watch that rank's process, because after its death no agent can set the abort word.
class HostedServices {
 public:
  /// HMC_RANK, HMC_SIZE and HMC_STORE are set. Finds the job's secret. By hand, rank 0 starts the store at HMC_STORE.
  /// Throws Error.
  explicit HostedServices(const base::Env& env);
  /// `store`: rank 0's; null on other ranks.
  HostedServices(const control::Secret& secret, std::unique_ptr<StoreServer> store);
  ~HostedServices();

  const control::Secret& secret() const noexcept { return secret_; }
  /// Connects to the node's agent. If there is none, this process runs it. `check`: see join_tcp. Throws Error.
  base::UniqueFd reach_agent(const base::Env& env, base::Deadline deadline, const std::function<void()>& check);
  /// After the rank has joined. `agent_pid`: the agent's process.
  void watch_agent(int agent_pid, const std::vector<RankFacts>& facts, const std::vector<int>& members,
                   const base::NodePage& page);
  /// From here on the process that runs the agent may exit.
  void stop_watching();

  /// This process's rank ends without a goodbye: notifies the ranks that use its agent.
  void report_death(int rank, base::Deadline deadline);
  /// Ends the services when all ranks that use them have sent their goodbyes, at the latest at the deadline. After a
  /// failure they end at once, unless `recovered`: the remaining ranks still use them.
  void end(base::Deadline deadline, bool recovered);

 private:
  class ProcessWatch;

  bool by_ranks_;  // ranks run the store and the agents
  control::Secret secret_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<ProcessWatch> watch_;
};

}  // namespace hmc::bootstrap
