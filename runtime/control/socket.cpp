#include "runtime/control/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/base/poller.hpp"

namespace hmc::control {

// ---- TCP

namespace {

void set_option(int socket, int level, int name, int value) noexcept {
  (void)::setsockopt(socket, level, name, &value, sizeof value);
}

struct HostPort {
  std::string host;
  std::string port;
};

HostPort split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  HostPort parts;
  if (colon != std::string::npos) {
    parts = {address.substr(0, colon), address.substr(colon + 1)};
    if (parts.host.size() >= 2 && parts.host.front() == '[' && parts.host.back() == ']') {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else if (parts.host.find(':') != std::string::npos) {
      parts.port.clear();  // an IPv6 address without brackets is ambiguous
    }
  }
  const bool number = !parts.port.empty() && parts.port.size() <= 5 &&
                      parts.port.find_first_not_of("0123456789") == std::string::npos && std::stoi(parts.port) <= 65535;
  if (!number) {
    throw Error(Code::invalid_config, "HMC_STORE", fmt::format("'{}' isn't an address", address),
                "give host:port, [v6]:port, or :port");
  }
  return parts;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses resolve(const HostPort& parts, int extra_flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = extra_flags | AI_NUMERICSERV | AI_NUMERICHOST;
  const char* const host = parts.host.empty() ? nullptr : parts.host.c_str();
  addrinfo* found = nullptr;
  // Try a numeric address first, because name services cost time and open files at every start.
  error = ::getaddrinfo(host, parts.port.c_str(), &hints, &found);
  if (error == EAI_NONAME && host != nullptr) {
    hints.ai_flags &= ~AI_NUMERICHOST;
    error = ::getaddrinfo(host, parts.port.c_str(), &hints, &found);
  }
  return {error == 0 ? found : nullptr, [](addrinfo* list) {
            if (list != nullptr) ::freeaddrinfo(list);
          }};
}

/// A connect() to a local port without a listener may connect the socket to itself. Then no store is running.
bool talks_to_itself(int socket) noexcept {
  sockaddr_storage mine{};
  sockaddr_storage theirs{};
  socklen_t mine_length = sizeof mine;
  socklen_t their_length = sizeof theirs;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &mine_length) != 0) return false;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &their_length) != 0) return false;
  return mine_length == their_length && std::memcmp(&mine, &theirs, mine_length) == 0;
}

base::UniqueFd connect_once(const addrinfo& to, base::Deadline deadline, int& error) {
  base::UniqueFd socket(::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    error = errno;
    return {};
  }
  error = ::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t length = sizeof error;
    if (!base::wait_for(socket.get(), {.write = true}, std::min(deadline.left_ms(), 5000)))
      error = ETIMEDOUT;
    else
      (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0 && talks_to_itself(socket.get())) error = ECONNREFUSED;
  if (error != 0) return {};
  tune_tcp(socket.get());
  return socket;
}

}  // namespace

void tune_tcp(int socket) noexcept {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // Keepalive detects a machine that lost power, which sends no FIN.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

base::UniqueFd listen_tcp(const std::string& address) {
  HostPort parts = split(address);
  const bool everywhere = parts.host.empty();
  if (everywhere) parts.host = "::";  // also accepts IPv4
  int error = 0;
  Addresses found = resolve(parts, AI_PASSIVE, error);
  ErrorDetail detail;
  detail.operation = "listen";
  detail.hint = "HMC_STORE must be an address of the machine of rank 0, with a free port";
  std::string why = error == 0 ? "" : ::gai_strerror(error);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    base::UniqueFd socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket) {
      set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (each->ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, everywhere ? 0 : 1);
    }
    if (socket && ::bind(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
    detail.sys_errno = errno;
    why = std::strerror(errno);
  }
  if (everywhere) return listen_tcp("0.0.0.0:" + parts.port);  // a machine without IPv6
  detail.message = fmt::format("can't listen on {}: {}", address, why);
  throw Error(std::move(detail));
}

std::string address_of(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> host{};
  std::array<char, 256> name{};
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    const int port = ntohs(v6.sin6_port);
    if (!IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) {
      return fmt::format("[{}]:{}", ::inet_ntop(AF_INET6, &v6.sin6_addr, host.data(), host.size()), port);
    }
    (void)::gethostname(name.data(), name.size() - 1);
    return fmt::format("{}:{}", name.data(), port);
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  const int port = ntohs(v4.sin_port);
  if (v4.sin_addr.s_addr != htonl(INADDR_ANY)) {
    return fmt::format("{}:{}", ::inet_ntop(AF_INET, &v4.sin_addr, host.data(), host.size()), port);
  }
  (void)::gethostname(name.data(), name.size() - 1);
  return fmt::format("{}:{}", name.data(), port);
}

base::UniqueFd connect_tcp(const std::string& address, base::Deadline deadline, const std::function<void()>& check) {
  std::vector<HostPort> choices;
  for (std::size_t at = 0; at <= address.size();) {
    const std::size_t end = std::min(address.find(',', at), address.size());
    choices.push_back(split(address.substr(at, end - at)));
    if (choices.back().host.empty()) choices.back().host = "localhost";
    at = end + 1;
  }
  auto pause = std::chrono::milliseconds(1);
  std::string why = "no process listens there";
  bool answered = false;
  do {
    for (const HostPort& parts : choices) {
      int error = 0;
      const Addresses found = resolve(parts, 0, error);
      if (error != 0) why = ::gai_strerror(error);
      if ((error == EAI_NONAME || error == EAI_FAIL) && choices.size() == 1) {
        throw Error(Code::invalid_config, "HMC_STORE", fmt::format("'{}' can't be resolved: {}", address, why));
      }
      for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
        base::UniqueFd socket = connect_once(*each, deadline, error);
        if (socket) return socket;
        // A refusal tells more than an attempt that the deadline has ended.
        if (error == ETIMEDOUT && answered && deadline.expired()) continue;
        answered = error != ETIMEDOUT;
        why = std::strerror(error);
      }
    }
    if (check) check();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  } while (!deadline.expired() && !base::is_interrupted());
  throw Error(Code::timeout, "connect", fmt::format("no store at {}: {}", address, why),
              "is rank 0 (or hmcrun) up, is HMC_STORE the same for every rank, and does a firewall let it pass?");
}

bool is_loopback(const std::string& address) {
  const std::string host = split(address).host;
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

bool is_tcp(int socket) noexcept {
  int domain = AF_UNSPEC;
  socklen_t length = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain != AF_UNIX;
}

// ---- Unix sockets

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

base::UniqueFd receive_datagrams_unix(std::string_view name) noexcept {
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = abstract_name(name, length);
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) socket.reset();
  return socket;
}

bool send_datagram_unix(std::string_view name, base::ByteView bytes) noexcept {
  constexpr timeval limit{2, 0};
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return false;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  socklen_t length = 0;
  const sockaddr_un address = abstract_name(name, length);
  return ::sendto(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                  length) == static_cast<ssize_t>(bytes.size());
}

PeerIdentity peer_of(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.uid, credentials.pid};
}

// ---- bytes

base::UniqueFd accept_one(int listener, bool& exhausted) noexcept {
  base::UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return socket;
  }
  tune_tcp(socket.get());  // no effect on a Unix socket
  return socket;
}

}  // namespace hmc::control
