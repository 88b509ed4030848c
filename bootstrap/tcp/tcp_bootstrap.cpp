#include "bootstrap/tcp/tcp_bootstrap.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"
#include "bootstrap/tcp/host_watch.hpp"
#include "bootstrap/tcp/local_secret.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/rank_client.hpp"
#include "bootstrap/tcp/socket.hpp"
#include "bootstrap/tcp/store_server.hpp"

namespace hmc::bootstrap {

namespace {

using base::Deadline;

/// Owns the services that this process runs for other ranks (at most store, agent and secret) and this rank's client.
/// Only abort may be called from a second thread.
class TcpBootstrap final : public Bootstrap, private base::NodeLink {
 public:
  TcpBootstrap(const base::Env& env, Deadline deadline);
  ~TcpBootstrap() override;

  int rank() const noexcept override { return client_->rank(); }
  int size() const noexcept override { return static_cast<int>(client_->facts().size()); }
  std::string launcher() const override { return by_hand_ ? "by hand (HMC_RANK)" : launcher_; }
  const std::vector<RankFacts>& facts() const noexcept override { return client_->facts(); }
  base::NodeLink& node_link() noexcept override { return *this; }
  const base::NodePage& node_page() const noexcept override { return client_->page(); }

  std::vector<base::Bytes> allgather(base::ByteView mine, Deadline deadline) override {
    return client_->meet(RoundKind::allgather, mine, deadline);
  }
  void barrier(Deadline deadline) override { (void)client_->meet(RoundKind::barrier, {}, deadline); }
  const std::vector<int>& members() const noexcept override { return client_->members(); }
  std::vector<std::shared_ptr<base::Segment>> share(const std::shared_ptr<base::Segment>& mine,
                                                    Deadline deadline) override {
    return client_->share(mine, deadline);
  }
  std::vector<std::shared_ptr<base::Segment>> share_among(const base::ShareGroup& group,
                                                          const std::shared_ptr<base::Segment>& mine,
                                                          Deadline deadline) override {
    return client_->share_among(group.members, round_of(group), mine, deadline);
  }
  std::vector<base::UniqueFd> pass(const base::ShareGroup& group, const base::UniqueFd& mine,
                                   Deadline deadline) override {
    return client_->pass(group.members, round_of(group), mine, deadline);
  }
  void publish(std::string_view key, base::ByteView value) override {
    client_->publish(key, value, Deadline::after(timeout_));
  }
  base::Bytes lookup(std::string_view key, Deadline deadline) override { return client_->lookup(key, deadline); }

  void abort(int exit_code, std::string_view text) noexcept override { client_->abort(exit_code, text); }
  void leave() noexcept override;

 private:
  Secret find_secret(const base::Env& env, Deadline deadline);
  base::UniqueFd reach_agent(const base::Env& env, const Secret& secret, Deadline deadline);
  void watch_host(int agent_pid);

  std::string launcher_;
  bool by_hand_;
  std::chrono::nanoseconds timeout_;
  std::optional<LocalSecret> local_secret_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<RankClient> client_;
  std::unique_ptr<HostWatch> watch_;
  bool left_ = false;
};

TcpBootstrap::TcpBootstrap(const base::Env& env, Deadline deadline)
    : launcher_(env.launcher), by_hand_(env.launcher.empty()), timeout_(env.timeout) {
  const Secret secret = find_secret(env, deadline);
  if (by_hand_ && *env.rank == 0) {
    store_ = std::make_unique<StoreServer>(secret, *env.size, env.store, StoreServer::Events{});
  }
  base::UniqueFd socket = reach_agent(env, secret, deadline);
  const int agent_pid = peer_of(socket.get()).pid;
  client_ = std::make_unique<RankClient>(std::move(socket), secret, own_facts(*env.rank), *env.size);
  client_->join(deadline);
  if (by_hand_ && !agent_) watch_host(agent_pid);
}

Secret TcpBootstrap::find_secret(const base::Env& env, Deadline deadline) {
  if (!env.secret.empty()) return Secret::from_hex(env.secret);
  if (!by_hand_) {
    throw Error(Code::invalid_config, "join", fmt::format("{} set no HMC_SECRET", env.launcher),
                "a launcher that sets HMC_LAUNCHER must also set HMC_SECRET");
  }
  if (!is_loopback(env.store)) {
    throw Error(Code::invalid_config, "join",
                fmt::format("HMC_SECRET is not set, and HMC_STORE={} can be reached from other machines", env.store),
                "set the same one for every rank: export HMC_SECRET=$(openssl rand -hex 32)");
  }
  if (*env.rank != 0) return LocalSecret::fetch(env.store, deadline);
  return local_secret_.emplace(env.store).secret();
}

/// Connects to this node's agent. If there is none, this process runs it.
base::UniqueFd TcpBootstrap::reach_agent(const base::Env& env, const Secret& secret, Deadline deadline) {
  const std::string name = NodeAgent::socket_name(secret, env.node);
  base::UniqueFd socket;
  for (;;) {
    ConnectResult result = connect_unix(name, socket);
    if (result == ConnectResult::refused) {
      agent_ = NodeAgent::start(secret, env.store, env.node, *env.size, {}, deadline, by_hand_ ? 0 : -1);
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

void TcpBootstrap::watch_host(int agent_pid) {
  for (const int member : client_->members()) {
    const RankFacts& each = client_->facts()[static_cast<std::size_t>(member)];
    if (each.pid != agent_pid || each.pid == ::getpid()) continue;
    watch_ = std::make_unique<HostWatch>(agent_pid, each.rank, client_->page());
    return;
  }
}

void TcpBootstrap::leave() noexcept {
  if (std::exchange(left_, true)) return;
  watch_.reset();  // from here on the host may exit
  client_->send_goodbye();
  // The services of this process must outlive the ranks that use them.
  const Deadline deadline = Deadline::after(timeout_);
  if (agent_) (void)agent_->wait_for_goodbyes(deadline);
  agent_.reset();
  if (store_) (void)store_->wait_for_goodbyes(deadline);
  store_.reset();
  local_secret_.reset();
}

TcpBootstrap::~TcpBootstrap() {
  if (left_ || !client_) return;
  // The rank ends without leave(): a failure. The ranks that use this process's services must be notified before the
  // services end.
  const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
  if (agent_) {
    agent_->report_death(client_->rank(), fmt::format("rank {} ended without Runtime::close", client_->rank()));
    (void)agent_->wait_for_goodbyes(soon);
  }
  watch_.reset();
  client_.reset();
  agent_.reset();
  if (store_) (void)store_->wait_for_goodbyes(soon);
}

}  // namespace

std::unique_ptr<Bootstrap> join_tcp(const base::Env& env, base::Deadline deadline) {
  if (!env.rank || !env.size || *env.rank < 0 || *env.rank >= *env.size || env.store.empty()) {
    throw Error(Code::invalid_config, "join", "HMC_RANK, HMC_SIZE and HMC_STORE don't describe a job");
  }
  return std::make_unique<TcpBootstrap>(env, deadline);
}

}  // namespace hmc::bootstrap
