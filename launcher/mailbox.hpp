// Mailbox: messages from other threads to the supervisor.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report.hpp"
#include "runtime/base/poller.hpp"

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

/// post: any thread, doesn't block, wakes the supervisor's poller. take: the supervisor.
class Mailbox {
 public:
  explicit Mailbox(base::Poller& poller) noexcept : poller_(poller) {}
  void post(SupervisorMessage message) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    } catch (...) {  // no memory: the keeper still reports the rank's exit
    }
    poller_.wake();
  }
  std::vector<SupervisorMessage> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  base::Poller& poller_;
  std::mutex mutex_;
  std::vector<SupervisorMessage> messages_;
};

}  // namespace hmc::launcher
