#include "bootstrap/tcp/local_value.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

namespace {

/// An abstract socket's name has at most 107 bytes.
std::string socket_name(const control::Secret& secret, const std::string& name) {
  return fmt::format("hmc-{}", secret.derive({base::as_bytes("local"), base::as_bytes(name)}).hex());
}

base::UniqueFd listen_or_throw(const control::Secret& secret, const std::string& name) {
  base::UniqueFd listener = control::listen_unix(socket_name(secret, name));
  if (!listener)
    throw Error(Code::invalid_config, "join", fmt::format("another process serves as rank 0 of the job '{}'", name),
                "is rank 0 started once? By hand, choose another port for HMC_STORE");
  return listener;
}

}  // namespace

LocalValue::LocalValue(const control::Secret& secret, const std::string& name, base::Bytes value)
    : value_(std::move(value)),
      listener_(listen_or_throw(secret, name)),
      watcher_("hmc-local", listener_.get(), [this] {
        bool exhausted = false;
        const base::UniqueFd caller = control::accept_one(listener_.get(), exhausted);
        if (exhausted) (void)::poll(nullptr, 0, 10);
        if (caller && control::peer_of(caller.get()).uid == ::geteuid())
          (void)control::send_some(caller.get(), value_, {});
        return true;
      }) {}

std::optional<base::Bytes> LocalValue::fetch(const control::Secret& secret, const std::string& name,
                                             base::Deadline deadline) {
  const std::string listener = socket_name(secret, name);
  do {
    base::UniqueFd socket;
    if (control::connect_unix(listener, socket) == control::ConnectResult::connected) {
      if (control::peer_of(socket.get()).uid != ::geteuid())
        throw Error(Code::refused, "join", fmt::format("a process of another user serves the job '{}'", name),
                    "set HMC_SECRET, the same for every rank, and another port in HMC_STORE");
      base::Bytes value;
      std::array<std::byte, longest> part{};
      std::vector<base::UniqueFd> none;
      for (;;) {
        (void)base::wait_for(socket.get(), {.read = true}, deadline.left_ms());
        const control::IoResult got = control::receive_some(socket.get(), part, none);
        if (got.io == control::Io::some) {
          value.insert(value.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(got.bytes));
          if (value.size() <= longest) continue;
        }
        if (got.io == control::Io::would_block && !deadline.expired()) continue;
        break;
      }
      if (!value.empty() && value.size() <= longest) return value;
    }
    (void)::poll(nullptr, 0, 2);
  } while (!deadline.expired() && !base::is_interrupted());
  return std::nullopt;
}

}  // namespace hmc::bootstrap
