// Access: the key of connections between processes that HMC_SECRET admits, whether or not they are ranks of a job.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

struct Access {
  Secret key;
  bool has_secret = false;  ///< HMC_SECRET is set; else the key is public, and only processes of this machine connect
  /// The key for one purpose. Empty with HMC_SECRET: the secret itself, the key of hmcrun's store.
  static Access of(const base::Env& env, std::string_view purpose);
  /// Checks a connected socket. A Unix socket's other end must be a process of this user.
  bool admits(int socket) const noexcept;
  /// The reason why admits() is false; else empty.
  std::string refusal_of(int socket) const;
};

/// The IP of this end of a TCP connection, without the prefix of an IPv4 address in IPv6; empty for other sockets.
std::string own_ip(int socket);

}  // namespace hmc::bootstrap
