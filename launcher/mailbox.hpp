// Mailbox: messages from other threads to the supervisor.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::launcher {

struct Letter {
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
  void post(Letter letter) noexcept;
  int fd() const noexcept { return bell_.get(); }  ///< readable if letters may be available
  std::vector<Letter> take();

 private:
  base::UniqueFd bell_;  // an eventfd
  std::mutex mutex_;
  std::vector<Letter> letters_;
};

}  // namespace hmc::launcher
