// Worker: the UCX context and UCX worker of one wire.
#pragma once

#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/transport/ucx/library.hpp"

namespace hmc::transport::ucx {

/// Owns the context and the worker. Threads: AmWire holds its lock around every call.
class Worker {
 public:
  /// `transports`: a value for UCX_TLS, unless the user has set it. Empty: UCX chooses. `with_memory_access`: put and
  /// get may be used.
  Worker(int job_size, const std::string& transports, bool with_memory_access);
  ~Worker() { destroy(); }
  /// Destroys both. UCX may call the callbacks again for pending messages, so the callbacks' arguments must still be
  /// valid. No other function may be called afterwards.
  void destroy() noexcept;
  /// Makes progress until all messages are sent, including UCX's own; returns false if that takes longer than
  /// `limit_ns`.
  bool flush(std::int64_t limit_ns) noexcept;
  /// An alternative to destroy(): deliberately leaks the context and the worker until the process ends.
  void leak_resources() noexcept;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  base::Bytes address() const;
  void on_message(ucp_am_recv_callback_t callback, void* argument);
  unsigned progress() noexcept { return ucp_.ucp_worker_progress(worker_); }
  /// For poll(2). After arm() returned true, it becomes readable when the worker has events to progress.
  int event_fd() const;
  /// Returns false if the worker has events to progress first.
  /// UCX arms a completion queue after it has read the pending events. A verbs device needs to report only completions
  /// after that, so the queue is polled once more.
  bool arm() noexcept { return ucp_.ucp_worker_arm(worker_) == UCS_OK && ucp_.ucp_worker_progress(worker_) == 0; }

  const std::string& transports() const noexcept { return transports_; }  ///< the transports in use
  ucp_worker_h handle() const noexcept { return worker_; }
  ucp_context_h context() const noexcept { return context_; }
  /// Another worker of the same context, which the caller destroys. Throws Error{unavailable}.
  ucp_worker_h create_another() const;
  const Library& ucp() const noexcept { return ucp_; }

 private:
  const Library& ucp_;
  std::string transports_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

}  // namespace hmc::transport::ucx
