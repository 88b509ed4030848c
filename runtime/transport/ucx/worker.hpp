// Worker: UCX's context and worker of one wire.
#pragma once

#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/transport/ucx/library.hpp"

namespace hmc::transport::ucx {

/// Owns both. Threads: the engine's lock around every call.
class Worker {
 public:
  /// `transports`: what UCX_TLS would say; taken unless the user has set UCX_TLS. Empty: UCX chooses.
  Worker(int job_size, const std::string& transports);
  ~Worker() { destroy(); }
  /// Ends what is left; UCX may call back once more for messages that it kept, so whoever is called must
  /// still be there. Nothing may be asked of this worker afterwards.
  void destroy() noexcept;
  /// Progresses until nothing is left that waits to be sent, of UCX's own messages too; false after so long.
  bool flush(std::int64_t limit_ns) noexcept;
  /// In place of destroy(): it stays behind until the process ends.
  void leave_behind() noexcept;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  base::Bytes address() const;
  void on_message(ucp_am_recv_callback_t callback, void* argument);
  unsigned progress() noexcept { return ucp_.ucp_worker_progress(worker_); }
  /// For poll(2). After arm() says true it becomes readable when there is something to progress.
  int event_fd() const;
  /// False: something is there already, and must be progressed first.
  bool arm() noexcept { return ucp_.ucp_worker_arm(worker_) == UCS_OK; }

  const std::string& transports() const noexcept { return transports_; }  ///< the ones in force
  ucp_worker_h handle() const noexcept { return worker_; }
  const Library& ucp() const noexcept { return ucp_; }

 private:
  const Library& ucp_;
  std::string transports_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

}  // namespace hmc::transport::ucx
