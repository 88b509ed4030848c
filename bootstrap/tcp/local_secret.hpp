// LocalSecret: a job's secret for ranks that were started by hand on one machine without HMC_SECRET.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::bootstrap {

/// Rank 0 generates a random secret and sends it over an abstract Unix socket named after the store's address. Both
/// sides check the peer's uid (SO_PEERCRED), so no other user can join, and the secret isn't stored. Only for a store
/// on the loopback interface; across machines HMC_SECRET is required.
class LocalSecret {
 public:
  /// Serves a new secret until destroyed. Throws Error if another job uses this address.
  explicit LocalSecret(const std::string& store);
  ~LocalSecret();
  const Secret& secret() const noexcept { return secret_; }

  /// Waits for rank 0. Throws Error{timeout}, or Error{refused} if the peer is a process of another user.
  static Secret fetch(const std::string& store, base::Deadline deadline);

 private:
  void serve();
  Secret secret_ = Secret::random();
  base::UniqueFd listener_;
  base::UniqueFd wake_;
  std::thread thread_;
};

}  // namespace hmc::bootstrap
