// TerminalInput: passes terminal input to rank 0.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// The supervisor's poll loop calls it. Without a `feed` it does nothing, because rank 0 inherits stdin.
class TerminalInput {
 public:
  explicit TerminalInput(base::UniqueFd feed) noexcept : feed_(std::move(feed)) {}
  void add_polls(std::vector<pollfd>& fds);
  void handle(const pollfd& fd);
  /// A shell's `fg` causes no event, so poll once a second. -1: no polling is needed.
  int poll_ms() const noexcept { return feed_ && background_ ? 1000 : -1; }

 private:
  void read_terminal();
  void write_feed();

  base::UniqueFd feed_;
  std::string pending_;      // input that the feed hasn't accepted yet; meanwhile no more is read
  bool background_ = false;  // hmcrun is in the background and may not read the terminal
  bool ended_ = false;
};

}  // namespace hmc::launcher
