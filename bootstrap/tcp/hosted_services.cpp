#include "bootstrap/tcp/hosted_services.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/control/access.hpp"
#include "runtime/control/socket.hpp"
#include "runtime/control/watcher.hpp"

namespace hmc::bootstrap {

using base::Deadline;

/// Raises the page's abort word when the process that runs the agent has exited. Has no effect if the kernel doesn't
/// support pidfd.
class HostedServices::ProcessWatch {
 public:
  ProcessWatch(pid_t host, int host_rank, const base::NodePage& page)
      : page_(page), process_(static_cast<int>(::syscall(SYS_pidfd_open, host, 0))) {
    if (!process_) return;
    watcher_ = std::make_unique<control::Watcher>("hmc-watch", process_.get(), [this, host_rank] {
      page_.raise_abort(
          Code::peer_failed, host_rank,
          fmt::format("rank {}, which ran the node's agent, ended without waiting for the others", host_rank));
      return false;
    });
  }

 private:
  base::NodePage page_;
  base::UniqueFd process_;
  std::unique_ptr<control::Watcher> watcher_;  // last: its thread uses the other members
};

HostedServices::HostedServices(const base::Env& env) : by_ranks_(env.launcher.empty()) {
  if (!by_ranks_ && env.secret.empty())
    throw Error(Code::invalid_config, "join", fmt::format("{} set no HMC_SECRET", env.launcher),
                "a launcher that sets HMC_LAUNCHER must also set HMC_SECRET");
  if (by_ranks_ && env.secret.empty() && !control::is_loopback(env.store))
    throw Error(Code::invalid_config, "join",
                fmt::format("HMC_SECRET is not set, and HMC_STORE={} can be reached from other machines", env.store),
                "set the same one for every rank: export HMC_SECRET=$(openssl rand -hex 32)");
  secret_ = by_ranks_ ? control::Access::of_job_by_hand(env, env.store).key : control::Secret::from_hex(env.secret);
  if (by_ranks_ && *env.rank == 0)
    store_ = std::make_unique<StoreServer>(secret_, *env.size, env.store, StoreServer::Events{});
}

HostedServices::HostedServices(const control::Secret& secret, std::unique_ptr<StoreServer> store)
    : by_ranks_(true), secret_(secret), store_(std::move(store)) {}

HostedServices::~HostedServices() = default;

base::UniqueFd HostedServices::reach_agent(const base::Env& env, Deadline deadline,
                                           const std::function<void()>& check) {
  const std::string name = NodeAgent::socket_name(secret_, env.node);
  base::UniqueFd socket;
  for (;;) {
    control::ConnectResult result = control::connect_unix(name, socket);
    if (result == control::ConnectResult::refused) {
      agent_ = NodeAgent::start(secret_, env.store, env.node, *env.size, {}, deadline, by_ranks_ ? 0 : -1, check);
      result = control::connect_unix(
          name, socket);  // to this process's agent, or to an agent that another rank started first
    }
    if (result == control::ConnectResult::connected) break;
    if (deadline.expired()) throw Error(Code::timeout, "join", "the node's agent accepts no connection");
    (void)::poll(nullptr, 0, 1);
  }
  if (control::peer_of(socket.get()).uid != ::geteuid()) {
    throw Error(Code::refused, "join", "the node's agent belongs to another user");
  }
  return socket;
}

void HostedServices::watch_agent(int agent_pid, const std::vector<RankFacts>& facts, const std::vector<int>& members,
                                 const base::NodePage& page) {
  if (!by_ranks_ || agent_) return;
  for (const int member : members) {
    const RankFacts& each = facts[static_cast<std::size_t>(member)];
    if (each.pid != agent_pid || each.pid == ::getpid()) continue;
    watch_ = std::make_unique<ProcessWatch>(agent_pid, each.rank, page);
    return;
  }
}

void HostedServices::stop_watching() { watch_.reset(); }

void HostedServices::report_death(int rank, Deadline deadline) {
  if (!agent_) return;
  agent_->report_death(rank, fmt::format("rank {} ended without Runtime::close", rank));
  (void)agent_->wait_for_goodbyes(deadline);
}

void HostedServices::end(Deadline deadline, bool recovered) {
  if (agent_) (void)(recovered ? agent_->wait_for_all(deadline) : agent_->wait_for_goodbyes(deadline));
  agent_.reset();
  if (store_) (void)(recovered ? store_->wait_for_all(deadline) : store_->wait_for_goodbyes(deadline));
  store_.reset();
}

}  // namespace hmc::bootstrap
