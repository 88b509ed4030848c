// Watcher: a thread that waits until a descriptor is readable.
#pragma once

#include <thread>
#include <utility>

#include "runtime/base/poller.hpp"
#include "runtime/control/service_thread.hpp"

namespace hmc::control {

/// Calls `ready` whenever the descriptor is readable. Ends when `ready` returns false, or when a program closes the
/// Watcher's own descriptors, as a daemon does; at the latest in the destructor.
class Watcher {
 public:
  template <typename Ready> Watcher(const char* thread_name, int fd, Ready ready) {
    poller_.add(fd, {.read = true}, [this, ready = std::move(ready)](base::Readiness) {
      if (!ready()) poller_.stop();
    });
    thread_ = service_thread(thread_name, [this] {
      while (poller_.wait()) {
      }
    });
  }
  ~Watcher() {
    poller_.stop();
    thread_.join();
  }

 private:
  base::Poller poller_;
  std::thread thread_;
};

}  // namespace hmc::control
