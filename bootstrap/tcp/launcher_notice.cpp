#include "bootstrap/tcp/launcher_notice.hpp"

#include <exception>

#include "bootstrap/tcp/connection.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

bool has_launcher(const base::Env& env) noexcept { return env.launcher == "hmcrun" && !env.secret.empty(); }

void tell_launcher(const base::Env& env, pid_t cause) noexcept {
  try {
    const Secret secret = Secret::from_hex(env.secret);
    base::UniqueFd socket;
    if (connect_unix(NodeAgent::socket_name(secret, env.node), socket) != ConnectResult::connected) return;
    ControlConnection link(std::move(socket), secret, ControlConnection::Side::client);
    link.send(Cause{cause});
    // The agent closes the connection when it has handled the message.
    const auto deadline = base::Deadline::after(std::chrono::milliseconds(500));
    std::vector<base::UniqueFd> fds;
    while (!link.ended() && !deadline.expired()) {
      (void)link.next(fds);
      move_or_sleep(link, deadline.left_ms());
    }
  } catch (const std::exception&) {  // hmcrun then exits with the status of the rank that exits first
  }
}

}  // namespace hmc::bootstrap
