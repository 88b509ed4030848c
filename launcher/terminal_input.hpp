// TerminalInput: gives rank 0 what is typed.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// Driven by the supervisor's poll. Does nothing when `feed` is none: then stdin is inherited.
class TerminalInput {
 public:
  explicit TerminalInput(base::UniqueFd feed) noexcept : feed_(std::move(feed)) {}
  void add_polls(std::vector<pollfd>& fds);
  void handle(const pollfd& fd);
  /// A shell's `fg` tells nobody that the terminal is ours: look once a second. -1: no need.
  int poll_ms() const noexcept { return feed_ && background_ ? 1000 : -1; }

 private:
  void read_terminal();
  void write_feed();

  base::UniqueFd feed_;
  std::string pending_;      // typed, and not taken by rank 0 yet; nothing is read meanwhile
  bool background_ = false;  // the terminal isn't ours to read
  bool ended_ = false;
};

}  // namespace hmc::launcher
