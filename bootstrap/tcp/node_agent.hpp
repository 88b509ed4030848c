// NodeAgent: speaks for one node. hmcrun runs it; without hmcrun, the node's first rank does.
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

/// Ranks of the node connect to its abstract Unix socket (named after the job's secret and the node's
/// label; nothing of it in a file system; the peer's uid is checked) and get the node page. The agent
/// holds the node's one connection to the store, gathers its ranks' contributions into one message,
/// and passes descriptors between them. A rank whose connection ends without a goodbye has failed:
/// the agent raises the abort word and tells the store. Owns a thread that sleeps in poll.
class NodeAgent {
 public:
  struct Events {  // called on the agent's thread; must not block
    /// Seen by the socket's end; not called for what report_death told.
    std::function<void(int rank, std::string_view cause)> on_rank_lost;
  };
  /// Null if another agent already serves this node. Throws Error if the store can't be reached or
  /// doesn't let this node in. Doesn't wait for ranks. `store_rank`: the rank that serves the store,
  /// if one does; it is blamed when the store goes.
  static std::unique_ptr<NodeAgent> start(const Secret& secret, const std::string& store, std::string_view node_label,
                                          int job_size, Events events, base::Deadline deadline, int store_rank = -1);
  ~NodeAgent();  ///< stops and joins

  const base::NodePage& page() const noexcept;
  /// A rank of this node ended (hmcrun saw it by pidfd, faster than the socket's end): raises the
  /// abort word and tells the store. Ignored for a rank that said goodbye. From any thread.
  void report_death(int rank, std::string_view cause);
  /// True once every rank of the node said goodbye, or the job failed.
  bool wait_for_goodbyes(base::Deadline deadline);

  /// Ranks of the node that joined and haven't said goodbye, as far as has come by now. From any thread; waits for the
  /// agent's thread, at most a second.
  std::vector<int> ranks_without_goodbye();

  /// The abstract socket's name, for ranks of this job and node.
  static std::string socket_name(const Secret& secret, std::string_view node_label);

 private:
  class Agent;
  explicit NodeAgent(std::unique_ptr<Agent> agent);
  std::unique_ptr<Agent> agent_;
};

}  // namespace hmc::bootstrap
