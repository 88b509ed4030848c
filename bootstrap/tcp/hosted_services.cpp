#include "bootstrap/tcp/hosted_services.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/tcp/socket.hpp"
#include "bootstrap/tcp/watcher.hpp"

namespace hmc::bootstrap {

using base::Deadline;

namespace {

/// For a rank other than 0 of a job that was started by hand: rank 0's secret. Throws Error.
Secret fetch_local_secret(const std::string& store, Deadline deadline) {
  const std::optional<base::Bytes> value = LocalValue::fetch(store, deadline);
  if (!value)
    throw Error(Code::timeout, "join", fmt::format("rank 0 of the job at HMC_STORE={} can't be reached", store),
                "is rank 0 started, by this user, and is HMC_STORE the same for every rank?");
  std::array<std::byte, Secret::bytes> key{};
  if (value->size() != key.size()) throw Error(Code::error, "join", "rank 0 sent no secret");
  std::ranges::copy(*value, key.begin());
  return Secret::from_bytes(key);
}

}  // namespace

/// Raises the page's abort word when the process that runs the agent has exited. Has no effect if the kernel doesn't
/// support pidfd.
class HostedServices::ProcessWatch {
 public:
  ProcessWatch(pid_t host, int host_rank, const base::NodePage& page)
      : page_(page), process_(static_cast<int>(::syscall(SYS_pidfd_open, host, 0))) {
    if (!process_) return;
    watcher_ = std::make_unique<Watcher>("hmc-watch", process_.get(), [this, host_rank] {
      page_.raise_abort(
          Code::peer_failed, host_rank,
          fmt::format("rank {}, which ran the node's agent, ended without waiting for the others", host_rank));
      return false;
    });
  }

 private:
  base::NodePage page_;
  base::UniqueFd process_;
  std::unique_ptr<Watcher> watcher_;  // last: its thread uses the other members
};

HostedServices::HostedServices(const base::Env& env, Deadline deadline) : by_ranks_(env.launcher.empty()) {
  if (!env.secret.empty()) {
    secret_ = Secret::from_hex(env.secret);
    // Jobs with the same HMC_SECRET and different stores have different agents on a node.
    if (by_ranks_)
      secret_ = secret_.derive({base::as_bytes("port"), base::as_bytes(env.store.substr(env.store.rfind(':') + 1))});
  } else if (!by_ranks_) {
    throw Error(Code::invalid_config, "join", fmt::format("{} set no HMC_SECRET", env.launcher),
                "a launcher that sets HMC_LAUNCHER must also set HMC_SECRET");
  } else if (!is_loopback(env.store)) {
    throw Error(Code::invalid_config, "join",
                fmt::format("HMC_SECRET is not set, and HMC_STORE={} can be reached from other machines", env.store),
                "set the same one for every rank: export HMC_SECRET=$(openssl rand -hex 32)");
  } else if (*env.rank != 0) {
    secret_ = fetch_local_secret(env.store, deadline);
  } else {
    secret_ = Secret::random();
    local_secret_ = std::make_unique<LocalValue>(env.store, base::Bytes(secret_.key().begin(), secret_.key().end()));
  }
  if (by_ranks_ && *env.rank == 0)
    store_ = std::make_unique<StoreServer>(secret_, *env.size, env.store, StoreServer::Events{});
}

HostedServices::HostedServices(const Secret& secret, std::unique_ptr<StoreServer> store)
    : by_ranks_(true), secret_(secret), store_(std::move(store)) {}

HostedServices::~HostedServices() = default;

base::UniqueFd HostedServices::reach_agent(const base::Env& env, Deadline deadline,
                                           const std::function<void()>& check) {
  const std::string name = NodeAgent::socket_name(secret_, env.node);
  base::UniqueFd socket;
  for (;;) {
    ConnectResult result = connect_unix(name, socket);
    if (result == ConnectResult::refused) {
      agent_ = NodeAgent::start(secret_, env.store, env.node, *env.size, {}, deadline, by_ranks_ ? 0 : -1, check);
      result = connect_unix(name, socket);  // to this process's agent, or to an agent that another rank started first
    }
    if (result == ConnectResult::connected) break;
    if (deadline.expired()) throw Error(Code::timeout, "join", "the node's agent accepts no connection");
    (void)::poll(nullptr, 0, 1);
  }
  if (peer_of(socket.get()).uid != ::geteuid()) {
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
  local_secret_.reset();
}

}  // namespace hmc::bootstrap
