#include "bootstrap/tcp/host_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/tcp/service_thread.hpp"

namespace hmc::bootstrap {

HostWatch::HostWatch(pid_t host, int host_rank, base::NodePage page)
    : process_(static_cast<int>(::syscall(SYS_pidfd_open, host, 0))), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!process_ || !wake_) return;
  thread_ = service_thread("hmc-watch", [this, host_rank, page = std::move(page)] { watch(host_rank, page); });
}

HostWatch::~HostWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void HostWatch::watch(int host_rank, const base::NodePage& page) {
  pollfd wait[] = {{wake_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
  do {
    (void)::poll(wait, 2, -1);
    if (wait[0].revents != 0) return;  // this rank leaves, so the host may exit
  } while (wait[1].revents == 0);
  page.raise_abort(Code::peer_failed, host_rank,
                   fmt::format("rank {}, which ran the node's agent, ended without waiting for the others", host_rank));
}

}  // namespace hmc::bootstrap
