#include "bootstrap/tcp/launcher_notice.hpp"

#include <exception>
#include <optional>
#include <vector>

#include "bootstrap/tcp/node_agent.hpp"
#include "runtime/base/process_stat.hpp"
#include "runtime/control/connection.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

bool has_launcher(const base::Env& env) noexcept { return env.launcher == "hmcrun" && !env.secret.empty(); }

namespace {

/// A connection to hmcrun's agent that has sent the cause; none if hmcrun has ended.
std::optional<control::Connection> send_cause(const base::Env& env, pid_t cause) {
  const control::Secret secret = control::Secret::from_hex(env.secret);
  base::UniqueFd socket;
  if (control::connect_unix(NodeAgent::socket_name(secret, env.node), socket) != control::ConnectResult::connected)
    return {};
  std::optional<control::Connection> link;
  link.emplace(std::move(socket), secret, control::Connection::Side::client, &payload_limit);
  link->send(Cause{cause});
  return link;
}

}  // namespace

void name_cause(const base::Env& env, pid_t cause) noexcept {
  try {
    std::optional<control::Connection> link = send_cause(env, cause);
    const auto deadline = base::Deadline::after(std::chrono::milliseconds(500));
    std::vector<base::UniqueFd> fds;
    while (link && !link->ended() && !deadline.expired()) {
      (void)link->next(fds);
      // The agent has read the cause when it closes its end, too.
      if (link->authenticated() && !link->wants_write()) link->finish();
      control::move_or_sleep(*link, 20);
    }
  } catch (const std::exception&) {  // hmcrun then exits with the status of the rank that exits first
  }
}

std::string name_cause_and_ask(const base::Env& env, pid_t cause) noexcept {
  try {
    std::optional<control::Connection> link = send_cause(env, cause);
    const auto deadline = base::Deadline::after(std::chrono::milliseconds(500));
    const auto last_deadline = base::Deadline::after(std::chrono::seconds(10));
    // Of a process that has ended, the answer comes: its end is reported as soon as hmcrun runs.
    const auto is_over = [&] {
      if (!deadline.expired()) return false;
      const std::optional<base::ProcessStat> process = base::stat_of(cause);
      return last_deadline.expired() || (process && !process->is_over);
    };
    std::vector<base::UniqueFd> fds;
    while (link && !link->ended() && !is_over()) {
      if (const auto frame = link->next(fds))
        if (const auto failure = decode<Failure>(*frame)) return failure->text;
      control::move_or_sleep(*link, 20);
    }
  } catch (const std::exception&) {  // as above
  }
  return {};
}

}  // namespace hmc::bootstrap
