// Sockets: listen, connect, send and receive, with descriptors. All sockets are non-blocking and close-on-exec.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/fd_passing.hpp"

namespace hmc::control {

// ---- TCP; addresses are "host:port", "[v6]:port", and ":port" for all interfaces
/// Throws Error with the address and the system's error.
base::UniqueFd listen_tcp(const std::string& address);
/// The listener's address, with its actual port.
std::string address_of(int listener);
/// `address` may be a list with commas: connects to the first address that answers. Retries until the deadline, because
/// the listener may not have started yet. `check` is called between the attempts; it throws to end them. Throws
/// Error{timeout}, or Error{invalid_config} for an invalid address.
base::UniqueFd connect_tcp(const std::string& address, base::Deadline deadline,
                           const std::function<void()>& check = nullptr);
/// True if the text of the address is a loopback address (127.x, ::1, localhost).
bool is_loopback(const std::string& address);
bool is_tcp(int socket) noexcept;
/// Sets TCP_NODELAY and keepalive. Keepalive detects a machine that lost power.
void tune_tcp(int socket) noexcept;

// ---- Unix sockets in the abstract namespace, without a file
/// Returns an empty descriptor if the name is in use. Throws Error for other failures.
base::UniqueFd listen_unix(std::string_view name);
enum class ConnectResult { connected, refused, busy };  ///< busy: the listener's queue is full
ConnectResult connect_unix(std::string_view name, base::UniqueFd& out);

/// A socket that receives datagrams under an abstract name. Empty if the system refuses it.
base::UniqueFd receive_datagrams_unix(std::string_view name) noexcept;
/// Blocks while the receiver's queue is full, at most 2 s. False if it wasn't sent.
bool send_datagram_unix(std::string_view name, base::ByteView bytes) noexcept;

struct PeerIdentity {
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;
};
/// The process at the other end of a Unix socket, as reported by the kernel.
PeerIdentity peer_of(int socket) noexcept;

/// Returns an empty descriptor if no connection is pending. Sets `exhausted` if this process has no free descriptor.
base::UniqueFd accept_one(int listener, bool& exhausted) noexcept;

// ---- bytes
using base::Io;
using base::IoResult;
using base::receive_some;
using base::send_some;

}  // namespace hmc::control
