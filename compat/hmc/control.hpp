// ControlPlane: authenticated messages between processes that are identified by name.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <hmc/error.hpp>

#include "compat/hmc/control_link.hpp"
#include "compat/hmc/socket_file.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/status.hpp"
#include "runtime/control/access.hpp"
#include "runtime/control/peer_loop.hpp"

namespace hmc::compat {

/// The status_t of a failure in <hmc.h>.
status_t to_status(Code code) noexcept;

/// The timeout of calls that have no timeout parameter, unless HMC_TIMEOUT_S is set.
inline constexpr std::chrono::seconds default_timeout{300};

/// What is left of a deadline, for messages.
inline long long whole_seconds(base::Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::seconds>(deadline.left() + std::chrono::milliseconds(500)).count();
}

inline constexpr std::size_t longest_message_bytes = std::size_t{64} << 20;
std::optional<std::size_t> control_limit(control::MessageType type) noexcept;

using control::Access;

/// CTRL_TRANSPORT. automatic: a Unix socket to an address of this machine, TCP to others.
enum class CtrlTransport { automatic, tcp, uds };

/// Of this process.
const Instance& own_instance();

/// The listeners and the links of one process, by the peer's name: "7" for a number, "@10.0.0.1" for an IP. Throws
/// Error on failures to listen or connect. Threads: any.
class ControlPlane final : private control::PeerLoop::Handler {
 public:
  ControlPlane();
  ~ControlPlane() override;

  void start(const std::string& ip, std::uint16_t port, const std::string& path);
  void stop();
  bool listens();
  /// True if a connection to this address would reach this process.
  bool listens_at(const std::string& ip, std::uint16_t port);
  /// `mine`: this process's name at the peer; empty: the IP of this end of the connection.
  void connect(const std::string& name, base::UniqueFd socket, const std::string& mine);
  /// Connects by the Unix socket that the peer opens beside its TCP listener, if the IP is this machine's and
  /// CTRL_TRANSPORT allows that; else by TCP.
  void connect_tcp(const std::string& name, const std::string& ip, std::uint16_t port, const std::string& mine);
  void connect_file(const std::string& name, const std::string& path, const std::string& mine);
  /// Null if the peer isn't connected. With `wait`, while this process listens, first waits until the peer connects.
  std::shared_ptr<ControlLink> find(const std::string& name, bool wait);
  void close(const std::string& name);
  void close_all();
  std::chrono::nanoseconds timeout() const { return env_.timeout_or(default_timeout); }
  base::Deadline deadline() const { return base::Deadline::after(timeout()); }
  /// HMC_CTRL_PORT.
  std::uint16_t port() const noexcept { return port_; }
  const base::Log& log() const noexcept { return log_; }
  const Access& access() const noexcept { return access_; }

 private:
  std::string refusal_of(int socket) override;
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer&) override {}
  /// Adds the connection, or returns the reason against it.
  template <typename Take>
  std::string adopt(const std::string& name, const Instance& instance, std::uint64_t peer_closes, Take&& take);
  /// How often this process has closed its connections to the peer.
  std::uint64_t closes_of(const std::string& name);

  const base::Env env_;
  const base::Log log_;
  const Access access_;
  const CtrlTransport transport_;
  const std::uint16_t port_;
  std::mutex serving_;  // start and stop
  std::unique_ptr<SocketFile> file_;
  std::unique_ptr<control::PeerLoop> loop_;
  std::mutex mutex_;
  bool listens_ = false;
  std::uint16_t listener_port_ = 0;  // 0: no TCP
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<ControlLink>> links_;  // by name, as
  std::map<std::string, std::uint64_t> closes_;
};

}  // namespace hmc::compat
