// Waiting on one connection, for code without a PeerLoop.
#pragma once

#include <poll.h>

#include <algorithm>

#include "bootstrap/tcp/connection.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::bootstrap {

/// Sleeps until the connection is ready, at most for `timeout_ms`; then reads and writes.
inline void move_or_sleep(ControlConnection& connection, int timeout_ms) {
  pollfd wait{connection.fd(), POLLIN, 0};
  if (connection.stalled()) {
    timeout_ms = std::min(timeout_ms, 1);
  } else if (connection.wants_write()) {
    wait.events |= POLLOUT;
  }
  (void)::poll(&wait, 1, timeout_ms);
  connection.write();
  if (wait.revents != 0) connection.read();
}

}  // namespace hmc::bootstrap
