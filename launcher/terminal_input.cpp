#include "launcher/terminal_input.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace hmc::launcher {

namespace {
bool in_foreground() noexcept { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }
}  // namespace

void TerminalInput::add_polls(std::vector<pollfd>& fds) {
  if (!feed_) return;
  if (background_) background_ = !in_foreground();
  if (!pending_.empty())
    fds.push_back({feed_.get(), POLLOUT, 0});
  else if (!background_ && !ended_)
    fds.push_back({STDIN_FILENO, POLLIN, 0});
}

void TerminalInput::handle(const pollfd& fd) {
  if (!feed_ || fd.revents == 0) return;
  if (fd.fd == STDIN_FILENO) read_terminal();
  if (!pending_.empty()) write_feed();
}

void TerminalInput::read_terminal() {
  std::array<char, 4096> buffer;
  background_ = !in_foreground();
  if (background_) return;
  const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (size > 0) {
    pending_.assign(buffer.data(), static_cast<std::size_t>(size));
  } else if (size == 0 || (errno != EINTR && errno != EAGAIN)) {
    ended_ = true;
    feed_.reset();  // Ctrl-D, or the terminal was closed: rank 0 reads end-of-file
  }
}

void TerminalInput::write_feed() {
  const ssize_t size = ::write(feed_.get(), pending_.data(), pending_.size());
  if (size > 0) pending_.erase(0, static_cast<std::size_t>(size));
  if (size < 0 && errno != EAGAIN && errno != EINTR) feed_.reset();  // rank 0 has closed its stdin
}

}  // namespace hmc::launcher
