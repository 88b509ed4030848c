// Mailbox: messages from other threads to the supervisor.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::launcher {

struct SupervisorMessage {
  enum class What { aborted, output_done };
  What what;
  int rank = -1;
  int exit_code = 0;
  std::string text;
};

/// post: any thread, doesn't block. fd and take: the supervisor.
class Mailbox {
 public:
  Mailbox();
  void post(SupervisorMessage message) noexcept;
  int fd() const noexcept { return bell_.get(); }  ///< readable if messages may be available
  std::vector<SupervisorMessage> take();

 private:
  base::UniqueFd bell_;  // an eventfd
  std::mutex mutex_;
  std::vector<SupervisorMessage> messages_;
};

}  // namespace hmc::launcher
