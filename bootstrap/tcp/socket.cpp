// Unix sockets; sends and receives bytes with descriptors.
#include "bootstrap/tcp/socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <hmc/error.hpp>

#include "bootstrap/tcp/frame.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::bootstrap {

namespace {

sockaddr_un abstract_name(std::string_view name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);  // the leading zero makes it abstract
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

base::UniqueFd unix_socket() {
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    const int error = errno;
    throw Error(Code::error, "socket", fmt::format("{}; {}", std::strerror(error), base::descriptor_limit()));
  }
  return socket;
}

}  // namespace

base::UniqueFd listen_unix(std::string_view name) {
  base::UniqueFd socket = unix_socket();
  socklen_t length = 0;
  const sockaddr_un address = abstract_name(name, length);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == EADDRINUSE) return {};
    throw Error(Code::error, "bind", fmt::format("the node's socket: {}", std::strerror(errno)));
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(Code::error, "listen", fmt::format("the node's socket: {}", std::strerror(errno)));
  }
  return socket;
}

ConnectResult connect_unix(std::string_view name, base::UniqueFd& out) {
  base::UniqueFd socket = unix_socket();
  socklen_t length = 0;
  const sockaddr_un address = abstract_name(name, length);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
    out = std::move(socket);
    return ConnectResult::connected;
  }
  if (errno == ECONNREFUSED || errno == ENOENT) return ConnectResult::refused;
  if (errno == EAGAIN || errno == EINTR) return ConnectResult::busy;
  throw Error(Code::error, "connect", fmt::format("the node's socket: {}", std::strerror(errno)));
}

PeerIdentity peer_of(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.uid, credentials.pid};
}

base::UniqueFd accept_one(int listener, bool& exhausted) noexcept {
  base::UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return socket;
  }
  tune_tcp(socket.get());  // no effect on a Unix socket
  return socket;
}

IoResult send_some(int socket, base::ByteView bytes, const std::vector<int>& fds) noexcept {
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(most_fds_per_frame * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return {Io::some, static_cast<std::size_t>(sent), 0};
  // ETOOMANYREFS: too many descriptors of this user are in flight; it ends when receivers read them.
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS || errno == ENOMEM ||
                     errno == ETOOMANYREFS;
  return {later ? Io::would_block : Io::failed, 0, errno};
}

IoResult receive_some(int socket, std::span<std::byte> into, std::vector<base::UniqueFd>& fds) {
  iovec vector{into.data(), into.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(most_fds_per_frame * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) {
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return {later ? Io::would_block : Io::failed, 0, errno};
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) return {Io::failed, 0, EMFILE};
  if (got == 0) return {Io::ended, 0, 0};
  return {Io::some, static_cast<std::size_t>(got), 0};
}

}  // namespace hmc::bootstrap
