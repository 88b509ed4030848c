// StoreServer: the rendezvous of one job. hmcrun runs it; without hmcrun, rank 0 does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bootstrap/tcp/secret.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::bootstrap {

/// One connection per node (its NodeAgent). Owns a thread that sleeps in poll. Unknown connections (no valid first
/// message within 2 s, or a wrong MAC) are dropped and counted.
class StoreServer {
 public:
  struct Events {  // called on the server's thread; must not block
    std::function<void(int rank, int exit_code, std::string text)> on_abort;
  };
  /// Listens on `bind` ("127.0.0.1:0", "[::1]:0", ":4242" for all interfaces). Throws Error.
  StoreServer(const Secret& secret, int job_size, const std::string& bind, Events events);
  ~StoreServer();  ///< stops and joins

  std::string address() const;  ///< host:port, for HMC_STORE
  std::size_t unknown_connections() const noexcept;
  /// Returns true when every rank has sent its goodbye or the job has failed, so the store is no longer needed; false
  /// at the deadline.
  bool wait_for_goodbyes(base::Deadline deadline);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace hmc::bootstrap
