// Mailbox: messages from other threads to the supervisor.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

struct SupervisorMessage {
  enum class What { aborted, node_up, failed, node_lost, command, store_lost, no_member, cause, output_done };
  What what;
  int rank = -1;
  int value = 0;  ///< aborted: the exit status; command: the value; cause: the pid that `pid` names; output_done: 1
                  ///< after a write error
  int pid = 0;    ///< cause: of the process that fails
  std::string text;
};

/// post: any thread, doesn't block. fd and take: the supervisor.
class Mailbox {
 public:
  Mailbox() {
    if (!bell_) throw LaunchError(exit_own_failure, "eventfd: no descriptor left (ulimit -n)");
  }
  void post(SupervisorMessage message) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    } catch (...) {  // no memory: the keeper still reports the rank's exit
    }
    const std::uint64_t one = 1;
    (void)!::write(bell_.get(), &one, sizeof(one));
  }
  int fd() const noexcept { return bell_.get(); }  ///< readable if messages may be available
  std::vector<SupervisorMessage> take() {
    std::uint64_t count = 0;
    (void)!::read(bell_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  base::UniqueFd bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<SupervisorMessage> messages_;
};

}  // namespace hmc::launcher
