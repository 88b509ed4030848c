// Sockets: listen, connect, and bytes with descriptors. All are non-blocking and close-on-exec.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::bootstrap {

// ---- TCP; addresses are "host:port", "[v6]:port", and ":port" for all interfaces
/// Throws Error with the address and the system's error.
base::UniqueFd listen_tcp(const std::string& address);
/// The listener's address, with its actual port.
std::string address_of(int listener);
/// Retries until the deadline, since the listener may not have started yet. Throws Error{timeout}, or
/// Error{invalid_config} for an invalid address.
base::UniqueFd connect_tcp(const std::string& address, base::Deadline deadline);
/// True for addresses of this machine's loopback, as written (127.x, ::1, localhost).
bool is_loopback(const std::string& address);
/// Sets TCP_NODELAY and keepalive, which detects a machine that lost its power.
void tune_tcp(int socket) noexcept;

// ---- Unix, in the abstract namespace: nothing in a file system
/// Nothing if the name is in use. Throws Error for other failures.
base::UniqueFd listen_unix(std::string_view name);
enum class Dial { connected, nobody, busy };  ///< busy: there is a listener, but its queue is full
Dial connect_unix(std::string_view name, base::UniqueFd& out);

struct PeerIdentity {
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;
};
/// Of the process at the other end of a Unix socket, as the kernel reports it.
PeerIdentity peer_of(int socket) noexcept;

/// Nothing if no connection is pending. `exhausted` is set if this process has no descriptor left for it.
base::UniqueFd accept_one(int listener, bool& exhausted) noexcept;

// ---- bytes
enum class Io { some, would_block, ended, failed };
struct IoResult {
  Io io = Io::would_block;
  std::size_t bytes = 0;
  int error = 0;
};
/// Descriptors are sent with the first byte.
IoResult send_some(int socket, base::ByteView bytes, const std::vector<int>& fds) noexcept;
/// Appends received descriptors to `fds`. Fails with EMFILE if some couldn't be received.
IoResult receive_some(int socket, std::span<std::byte> into, std::vector<base::UniqueFd>& fds);

}  // namespace hmc::bootstrap
