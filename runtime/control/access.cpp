#include "runtime/control/access.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "runtime/control/socket.hpp"
#include "runtime/control/user_secret.hpp"

namespace hmc::control {

namespace {

/// The IP of one end of a connection, without the mapping of IPv4 into IPv6; empty for other families.
std::string ip_of(const sockaddr_storage& end) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (end.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(end).sin_addr, text.data(), text.size());
  if (end.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(end).sin6_addr, text.data(), text.size());
  const std::string ip = text.data();
  return ip.starts_with("::ffff:") && ip.find('.') != std::string::npos ? ip.substr(7) : ip;
}

}  // namespace

std::string own_ip(int socket) {
  sockaddr_storage mine{};
  socklen_t length = sizeof mine;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &length) == 0 ? ip_of(mine) : "";
}

Access Access::of(const base::Env& env, std::string_view purpose) {
  Access access;
  access.has_secret = !env.secret.empty();
  access.key = access.has_secret ? Secret::from_hex(env.secret) : user_secret();
  if (!purpose.empty()) access.key = access.key.derive({base::as_bytes(purpose)});
  return access;
}

Access Access::of_job_by_hand(const base::Env& env, std::string_view store) {
  Access access = of(env, {});
  access.key = access.key.derive({base::as_bytes("port"), base::as_bytes(store.substr(store.rfind(':') + 1))});
  return access;
}

std::vector<Access> Access::of_stores(const base::Env& env, std::string_view store) {
  std::vector<Access> all{of(env, env.secret.empty() ? "hmc store" : "")};
  if (env.launcher.empty() && env.rank && env.size) all.push_back(of_job_by_hand(env, store));
  return all;
}

bool Access::admits(int socket) const noexcept {
  sockaddr_storage mine{}, theirs{};
  socklen_t mine_length = sizeof mine, their_length = sizeof theirs;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &mine_length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &their_length) != 0)
    return false;
  if (mine.ss_family == AF_UNIX) return peer_of(socket).uid == ::geteuid();
  if (has_secret) return true;
  const std::string from = ip_of(theirs);
  // The kernel doesn't accept packets from outside that have an address of this machine as their source.
  return from.starts_with("127.") || from == "::1" || (!from.empty() && from == ip_of(mine));
}

std::string Access::refusal_of(int socket) const {
  if (admits(socket)) return {};
  return fmt::format("it is from another machine or user{}",
                     has_secret ? "" : "; set the same HMC_SECRET on both sides to allow others");
}

}  // namespace hmc::control
