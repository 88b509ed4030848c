#include "bootstrap/tcp/hosted_services.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <hmc/error.hpp>

#include "bootstrap/tcp/service_thread.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

using base::Deadline;

namespace {

std::string secret_socket_name(const std::string& store) { return fmt::format("hmc-secret-{}-{}", ::geteuid(), store); }

/// For a rank other than 0: waits for rank 0's LocalSecret. Throws Error{timeout}, or Error{refused} if the peer is a
/// process of another user.
Secret fetch_local_secret(const std::string& store, Deadline deadline) {
  do {
    base::UniqueFd socket;
    if (connect_unix(secret_socket_name(store), socket) == ConnectResult::connected) {
      if (peer_of(socket.get()).uid != ::geteuid()) {
        throw Error(Code::refused, "join",
                    fmt::format("a process of another user serves the secret for the store at {}", store),
                    "set HMC_SECRET, the same for every rank, and another port in HMC_STORE");
      }
      pollfd wait{socket.get(), POLLIN, 0};
      (void)::poll(&wait, 1, deadline.left_ms());
      std::array<std::byte, Secret::bytes> key{};
      std::vector<base::UniqueFd> none;
      if (receive_some(socket.get(), key, none).bytes == key.size()) return Secret::from_bytes(key);
    }
    (void)::poll(nullptr, 0, 2);
  } while (!deadline.expired());
  throw Error(Code::timeout, "join", fmt::format("rank 0 of the job at HMC_STORE={} can't be reached", store),
              "is rank 0 started, by this user, and is HMC_STORE the same for every rank?");
}

}  // namespace

/// A thread that waits until a descriptor is readable, and calls `ready`. It ends when `ready` returns false, and at
/// the latest in the destructor.
class HostedServices::Watcher {
 public:
  template <typename Ready> Watcher(const char* thread_name, int fd, Ready ready) {
    if (!wake_) throw Error(Code::error, "eventfd", std::strerror(errno));
    thread_ = service_thread(thread_name, [fd, wake = wake_.get(), ready = std::move(ready)] {
      pollfd wait[] = {{wake, POLLIN, 0}, {fd, POLLIN, 0}};
      do {
        wait[1].revents = 0;
        (void)::poll(wait, 2, -1);
        if (wait[0].revents != 0) return;
      } while (wait[1].revents == 0 || ready());
    });
  }
  ~Watcher() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  base::UniqueFd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread thread_;
};

/// Rank 0 sends its random secret over an abstract Unix socket named after the store's address, until destroyed. Both
/// sides check the peer's uid (SO_PEERCRED), so no other user can join, and the secret isn't stored. Only for a store
/// on the loopback interface; across machines HMC_SECRET is required.
class HostedServices::LocalSecret {
 public:
  LocalSecret(const std::string& store, const Secret& secret)
      : secret_(secret), listener_(listen_unix(secret_socket_name(store))) {
    if (!listener_) {
      throw Error(Code::invalid_config, "join", fmt::format("another job is starting at HMC_STORE={}", store),
                  "choose another port for HMC_STORE");
    }
    watcher_ = std::make_unique<Watcher>("hmc-secret", listener_.get(), [this] {
      bool exhausted = false;
      const base::UniqueFd caller = accept_one(listener_.get(), exhausted);
      if (exhausted) (void)::poll(nullptr, 0, 10);
      // 32 bytes always fit into a new socket's buffer, so this never blocks.
      if (caller && peer_of(caller.get()).uid == ::geteuid()) (void)send_some(caller.get(), secret_.key(), {});
      return true;
    });
  }

 private:
  Secret secret_;
  base::UniqueFd listener_;
  std::unique_ptr<Watcher> watcher_;  // last: its thread uses the other members
};

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

HostedServices::HostedServices(const base::Env& env, Deadline deadline) : by_hand_(env.launcher.empty()) {
  if (!env.secret.empty()) {
    secret_ = Secret::from_hex(env.secret);
  } else if (!by_hand_) {
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
    local_secret_ = std::make_unique<LocalSecret>(env.store, secret_);
  }
  if (by_hand_ && *env.rank == 0) {
    store_ = std::make_unique<StoreServer>(secret_, *env.size, env.store, StoreServer::Events{});
  }
}

HostedServices::~HostedServices() = default;

base::UniqueFd HostedServices::reach_agent(const base::Env& env, Deadline deadline) {
  const std::string name = NodeAgent::socket_name(secret_, env.node);
  base::UniqueFd socket;
  for (;;) {
    ConnectResult result = connect_unix(name, socket);
    if (result == ConnectResult::refused) {
      agent_ = NodeAgent::start(secret_, env.store, env.node, *env.size, {}, deadline, by_hand_ ? 0 : -1);
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
  if (!by_hand_ || agent_) return;
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

void HostedServices::end(Deadline deadline) {
  if (agent_) (void)agent_->wait_for_goodbyes(deadline);
  agent_.reset();
  if (store_) (void)store_->wait_for_goodbyes(deadline);
  store_.reset();
  local_secret_.reset();
}

}  // namespace hmc::bootstrap
