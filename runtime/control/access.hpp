// Access: the key of connections between processes, whether or not they are ranks of a job. HMC_SECRET is the key's
// source; without it, the secret of the user: then only processes of one user on one machine connect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/env.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::control {

/// The hint of errors: why the other side doesn't accept this one, or this side the other.
inline constexpr const char* same_secret_hint =
    "both sides need the same HMC_SECRET (64 hex digits: openssl rand -hex 32); without one, only processes of the "
    "same user, machine and mount namespace are accepted";

struct Access {
  Secret key;
  bool has_secret = false;  ///< HMC_SECRET is set; else the key is the user's, and the peers are on this machine
  /// The key for one purpose. Empty with HMC_SECRET: the secret itself, the key of hmcrun's store.
  /// Without HMC_SECRET: see user_secret(). Throws Error{invalid_config}.
  static Access of(const base::Env& env, std::string_view purpose);
  /// Of the store at HMC_STORE that rank 0 of a job runs which was started by hand. Jobs with other ports have other
  /// keys, and so other agents on a node. Throws Error{invalid_config}.
  static Access of_job_by_hand(const base::Env& env, std::string_view store);
  /// For Store::connect(): of a StoreService or hmcrun's store, and for a rank by hand that of its job's store.
  static std::vector<Access> of_stores(const base::Env& env, std::string_view store);
  /// Checks a connected socket. A Unix socket's other end must be a process of this user.
  bool admits(int socket) const noexcept;
  /// The reason why admits() is false; else empty.
  std::string refusal_of(int socket) const;
};

/// The IP of this end of a TCP connection, without the prefix of an IPv4 address in IPv6; empty for other sockets.
std::string own_ip(int socket);

}  // namespace hmc::control
