// Watcher: a thread that waits until a descriptor is readable.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/fd.hpp"
#include "runtime/control/service_thread.hpp"

namespace hmc::control {

/// Calls `ready` whenever the descriptor is readable. Ends when `ready` returns false, or when a program closes the
/// Watcher's own descriptor, as a daemon does; at the latest in the destructor.
class Watcher {
 public:
  template <typename Ready> Watcher(const char* thread_name, int fd, Ready ready) {
    if (!wake_) throw Error(Code::error, "eventfd", std::strerror(errno));
    thread_ = service_thread(thread_name, [fd, wake = wake_.get(), ready = std::move(ready)] {
      pollfd wait[] = {{wake, POLLIN, 0}, {fd, POLLIN, 0}};
      do {
        wait[1].revents = 0;
        (void)::poll(wait, 2, base::longest_poll_ms);
        if (wait[0].revents != 0) return;
      } while (wait[1].revents == 0 || ready());
    });
  }
  ~Watcher() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  base::UniqueFd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread thread_;
};

}  // namespace hmc::control
