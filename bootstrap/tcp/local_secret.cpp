#include "bootstrap/tcp/local_secret.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <hmc/error.hpp>

#include "bootstrap/tcp/service_thread.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

namespace {

std::string name_for(const std::string& store) { return fmt::format("hmc-secret-{}-{}", ::geteuid(), store); }

}  // namespace

LocalSecret::LocalSecret(const std::string& store)
    : listener_(listen_unix(name_for(store))), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!listener_ || !wake_) {
    throw Error(Code::invalid_config, "join", fmt::format("another job is starting at HMC_STORE={}", store),
                "choose another port for HMC_STORE");
  }
  thread_ = service_thread("hmc-secret", [this] { serve(); });
}

LocalSecret::~LocalSecret() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void LocalSecret::serve() {
  pollfd wait[] = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (;;) {
    (void)::poll(wait, 2, -1);
    if (wait[0].revents != 0) return;
    bool exhausted = false;
    const base::UniqueFd caller = accept_one(listener_.get(), exhausted);
    if (exhausted) (void)::poll(nullptr, 0, 10);
    // 32 bytes always fit into a new socket's buffer, so this never blocks.
    if (caller && peer_of(caller.get()).uid == ::geteuid()) (void)send_some(caller.get(), secret_.key(), {});
  }
}

Secret LocalSecret::fetch(const std::string& store, base::Deadline deadline) {
  do {
    base::UniqueFd socket;
    if (connect_unix(name_for(store), socket) == ConnectResult::connected) {
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

}  // namespace hmc::bootstrap
