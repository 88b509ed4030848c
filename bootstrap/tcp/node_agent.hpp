// NodeAgent: represents one node to the store. hmcrun runs it; without hmcrun, the node's first rank does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::bootstrap {

/// Ranks of the node connect to its abstract Unix socket, named after the job's secret and the node's label, and get
/// the node page. The agent checks the peer's uid. It holds the node's only connection to the store, merges its ranks'
/// contributions into one message, and passes descriptors between ranks.
///
/// If a rank's connection ends without a goodbye, the rank has failed: the agent raises the abort word and notifies the
/// store. Owns a thread that sleeps in poll.
class NodeAgent {
 public:
  struct Events {  // called on the agent's thread; must not block
    /// Called when a rank's connection has ended without goodbye, except after report_death for that rank.
    std::function<void(int rank, std::string_view cause)> on_rank_lost;
  };
  /// Null if another agent already serves this node. Throws Error if the store can't be reached or rejects this node.
  /// Doesn't wait for ranks. `store_rank`: the rank that runs the store, or -1; its failure is reported when the store
  /// ends.
  static std::unique_ptr<NodeAgent> start(const Secret& secret, const std::string& store, std::string_view node_label,
                                          int job_size, Events events, base::Deadline deadline, int store_rank = -1);
  ~NodeAgent();  ///< stops and joins

  const base::NodePage& page() const noexcept;
  /// Called by the parent process when a rank of this node has exited. Raises the abort word and notifies the store.
  /// Ignored after the rank's goodbye. From any thread.
  void report_death(int rank, std::string_view cause);
  /// Returns true when every rank of the node has sent its goodbye or the job has failed, and false at the deadline.
  bool wait_for_goodbyes(base::Deadline deadline);

  /// Ranks of the node that joined and whose goodbye hasn't arrived yet. From any thread; waits for the agent's thread,
  /// at most a second.
  std::vector<int> ranks_without_goodbye();

  /// The abstract socket's name, for ranks of this job and node.
  static std::string socket_name(const Secret& secret, std::string_view node_label);

 private:
  class Agent;
  explicit NodeAgent(std::unique_ptr<Agent> agent);
  std::unique_ptr<Agent> agent_;
};

}  // namespace hmc::bootstrap
