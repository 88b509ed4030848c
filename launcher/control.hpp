// ControlPlane: the part of the job's control plane that hmcrun runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/store_server.hpp"
#include "launcher/mailbox.hpp"
#include "launcher/plan.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::launcher {

/// One store, and one agent for each (emulated) node. A part of a job over several hosts has no store. Their threads
/// post events to the mailbox, which must outlive this object.
class ControlPlane {
 public:
  /// Throws hmc::Error.
  ControlPlane(const JobPlan& plan, const control::Secret& secret, Mailbox& mailbox);

  std::string store_address() const { return store_ != nullptr ? store_->address() : plan_.store; }
  // Ranks are indexes of the plan, and numbers of the job in results.
  /// Reports that a rank has died: the current calls of the other ranks fail. `no_replacement`: the reason why it isn't
  /// started again; empty: it is.
  void report_death(int rank, std::string cause, std::string no_replacement);
  /// The failure that is recorded in the node page of `rank`'s node: ok, peer_failed or aborted.
  base::Status failure_known_to(int rank) const noexcept { return agent_of(rank).page().aborted(); }
  /// Ranks that joined the job and haven't closed it, in ascending order.
  std::vector<int> ranks_without_goodbye() const;
  bool has_closed(int rank) const { return agent_of(rank).has_goodbye(plan_.options.number(rank)); }
  /// True if the rank has joined the job and hasn't closed it.
  bool is_in_job(int rank) const;
  /// A rank's activity line in the node page; pid 0 and no activity if the rank hasn't joined.
  struct RankActivity {
    pid_t pid = 0;
    std::string activity;  ///< "in allreduce number 5 of 4096 bytes for 1.9 s, waiting for rank 3"
  };
  RankActivity activity_of(int rank) const;

 private:
  bootstrap::NodeAgent& agent_of(int rank) const noexcept;

  const JobPlan& plan_;
  std::unique_ptr<bootstrap::StoreServer> store_;              // null in a part
  std::vector<std::unique_ptr<bootstrap::NodeAgent>> agents_;  // indexed by node; destroyed before the store
};

}  // namespace hmc::launcher
