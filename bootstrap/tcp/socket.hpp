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
/// Throws Error with the address and what the system said.
base::UniqueFd listen_tcp(const std::string& address);
/// Where a listener can be reached, with the port that it really got.
std::string address_of(int listener);
/// Tries until the deadline: what it connects to may not be up yet. Throws Error{timeout}, or
/// Error{invalid_config} when the address can't be one.
base::UniqueFd connect_tcp(const std::string& address, base::Deadline deadline);
/// True for addresses of this machine's loopback, as written (127.x, ::1, localhost).
bool is_loopback(const std::string& address);
/// Small messages go at once, and a machine that lost its power is noticed.
void tune_tcp(int socket) noexcept;

// ---- Unix, in the abstract namespace: nothing in a file system
/// Nothing when the name is in use. Throws Error for the rest.
base::UniqueFd listen_unix(std::string_view name);
enum class Dial { connected, nobody, busy };  ///< busy: somebody listens, but can't take us now
Dial connect_unix(std::string_view name, base::UniqueFd& out);

struct PeerIdentity {
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;
};
/// Of the process at the other end of a Unix socket, by the kernel's word.
PeerIdentity peer_of(int socket) noexcept;

/// Nothing when none waits. `exhausted` is set when this process has no descriptor for it.
base::UniqueFd accept_one(int listener, bool& exhausted) noexcept;

// ---- bytes
enum class Io { some, would_block, ended, failed };
struct IoResult {
  Io io = Io::would_block;
  std::size_t bytes = 0;
  int error = 0;
};
/// Descriptors go with the first byte.
IoResult send_some(int socket, base::ByteView bytes, const std::vector<int>& fds) noexcept;
/// Appends what came along to `fds`. Descriptors that didn't fit are a failure with EMFILE.
IoResult receive_some(int socket, std::span<std::byte> into, std::vector<base::UniqueFd>& fds);

}  // namespace hmc::bootstrap
